//! The list of devices and an open device.
//!
//! Unsafe here: `DeviceList` owns the list until dropped and returns `ListedDevice`s that borrow
//! it; `Context` owns an open device. Both call the library that created them.
#![allow(unsafe_code, reason = "owns libibverbs' device list and contexts")]

use std::ffi::{CStr, OsStr, c_int};
use std::mem::zeroed;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::device::{
    ibv_context, ibv_device, ibv_device_attr_ex, ibv_gid, ibv_gid_entry, ibv_port_attr,
};
use rdma_sys::{Errno, Verbs, inline};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// The list of devices.
pub(super) struct DeviceList {
    verbs: Arc<Verbs>,
    list: NonNull<*mut ibv_device>,
    count: usize,
}

// SAFETY: the list belongs to the process, not to a thread, and its owner frees it once.
unsafe impl Send for DeviceList {}
// SAFETY: the list is not modified after `new`; libibverbs opens devices from several threads.
unsafe impl Sync for DeviceList {}

impl DeviceList {
    pub(super) fn new(verbs: Arc<Verbs>) -> Result<Self, Errno> {
        let mut count: c_int = 0;
        // SAFETY: `count` is writable for the call; the list returned is freed in `Drop` only.
        let list = unsafe { verbs.ibv_get_device_list(&mut count) }?;
        Ok(DeviceList { verbs, list, count: usize::try_from(count).unwrap_or(0) })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ListedDevice<'_>> {
        // SAFETY: libibverbs returned this many entries, and the list is alive as long as `self`.
        let devices = unsafe { std::slice::from_raw_parts(self.list.as_ptr(), self.count) };
        devices
            .iter()
            .filter_map(|device| Some(ListedDevice { list: self, device: NonNull::new(*device)? }))
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: created in `new`, freed here only; every `ListedDevice` borrows `self` and was dropped before.
        unsafe { self.verbs.ibv_free_device_list(self.list.as_ptr()) };
    }
}

/// One device of the list, not opened.
pub(super) struct ListedDevice<'l> {
    list: &'l DeviceList,
    device: NonNull<ibv_device>,
}

impl ListedDevice<'_> {
    pub(super) fn name(&self) -> String {
        // SAFETY: the device is alive as long as the list it borrows; libibverbs wrote a
        // NUL-terminated name into it.
        let name = unsafe { CStr::from_ptr((*self.device.as_ptr()).name.as_ptr()) };
        name.to_string_lossy().into_owned()
    }

    pub(super) fn transport(&self) -> i32 {
        // SAFETY: the device is alive as long as the list it borrows.
        unsafe { (*self.device.as_ptr()).transport_type }
    }

    /// Its character device.
    pub(super) fn node(&self) -> PathBuf {
        // SAFETY: the device is alive as long as the list it borrows; libibverbs wrote a NUL-terminated name into it.
        let node = unsafe { CStr::from_ptr((*self.device.as_ptr()).dev_name.as_ptr()) };
        Path::new("/dev/infiniband").join(OsStr::from_bytes(node.to_bytes()))
    }

    /// Its entry in sysfs.
    fn sysfs_path(&self) -> PathBuf {
        // SAFETY: the device is alive as long as the list it borrows; libibverbs wrote a NUL-terminated path into it.
        let path = unsafe { CStr::from_ptr((*self.device.as_ptr()).dev_path.as_ptr()) };
        PathBuf::from(OsStr::from_bytes(path.to_bytes()))
    }

    /// In host byte order.
    pub(super) fn guid(&self) -> u64 {
        // SAFETY: the device is alive as long as the list it borrows.
        u64::from_be(unsafe { self.list.verbs.ibv_get_device_guid(self.device.as_ptr()) })
    }

    pub(super) fn open(&self) -> Result<Context, Errno> {
        // SAFETY: the device is alive as long as the list it borrows; only its owner closes the
        // context.
        let context = unsafe { self.list.verbs.ibv_open_device(self.device.as_ptr()) }?;
        let sysfs_path = Some(self.sysfs_path()).filter(|path| path.exists());
        Ok(Context { verbs: self.list.verbs.clone(), context, sysfs_path })
    }
}

/// An open device.
pub(super) struct Context {
    verbs: Arc<Verbs>,
    context: NonNull<ibv_context>,
    /// Its entry in sysfs; `None` if there was none when it was opened, as in a container without it.
    sysfs_path: Option<PathBuf>,
}

// SAFETY: libibverbs' contexts may be used from any thread, and from several concurrently.
unsafe impl Send for Context {}
// SAFETY: methods that take `&self` may be called from several threads: libibverbs locks its contexts.
unsafe impl Sync for Context {}

impl Context {
    pub(super) fn verbs(&self) -> &Verbs {
        &self.verbs
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_context {
        self.context.as_ptr()
    }

    /// Whether the device still exists. On removal the kernel first deletes its sysfs entry, then some
    /// drivers wait until it is closed; no other device gets the entry before that.
    pub(super) fn is_listed(&self) -> bool {
        self.sysfs_path.as_ref().is_none_or(|path| path.exists())
    }

    /// The descriptor for asynchronous events.
    pub(super) fn async_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open until `Drop`.
        let fd = unsafe { (*self.context.as_ptr()).async_fd };
        // SAFETY: open until `Drop`, which the borrow of `self` prevents.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    pub(super) fn completion_vectors(&self) -> i32 {
        // SAFETY: open until `Drop`.
        unsafe { (*self.context.as_ptr()).num_comp_vectors }
    }

    pub(super) fn attributes(&self) -> Result<ibv_device_attr_ex, Errno> {
        // SAFETY: a struct of numbers, for which all zero bits are a valid value.
        let mut attr: ibv_device_attr_ex = unsafe { zeroed() };
        // SAFETY: open until `Drop`; `attr` is writable for the call.
        unsafe { inline::ibv_query_device_ex(&self.verbs, self.context.as_ptr(), &mut attr) }?;
        Ok(attr)
    }

    pub(super) fn port(&self, port: u8) -> Result<ibv_port_attr, Errno> {
        // SAFETY: a struct of numbers, for which all zero bits are a valid value.
        let mut attr: ibv_port_attr = unsafe { zeroed() };
        // SAFETY: open until `Drop`; `attr` is writable for the call.
        unsafe { inline::ibv_query_port(&self.verbs, self.context.as_ptr(), port, &mut attr) }?;
        Ok(attr)
    }

    /// The used entries of all ports' GID tables; `None` if the library cannot list them.
    pub(super) fn gid_table(&self, capacity: usize) -> Option<Result<Vec<ibv_gid_entry>, Errno>> {
        // SAFETY: a struct of numbers, for which all zero bits are a valid value.
        let mut entries: Vec<ibv_gid_entry> = vec![unsafe { zeroed() }; capacity];
        // SAFETY: open until `Drop`; the vector has `capacity` writable entries of the size
        // given, and the library fills at most that many.
        let filled = unsafe {
            self.verbs._ibv_query_gid_table(
                self.context.as_ptr(),
                entries.as_mut_ptr(),
                capacity,
                0,
                size_of::<ibv_gid_entry>(),
            )
        }?;
        Some(filled.map(|count| {
            entries.truncate(count);
            entries
        }))
    }

    pub(super) fn gid(&self, port: u8, index: i32) -> Result<[u8; 16], Errno> {
        let mut gid = ibv_gid::default();
        // SAFETY: open until `Drop`; `gid` is writable for the call.
        unsafe { self.verbs.ibv_query_gid(self.context.as_ptr(), port, index, &mut gid) }?;
        Ok(gid.raw)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened in `ListedDevice::open`, closed here only. If closing fails, nothing is
        // left to do.
        let _ = unsafe { self.verbs.ibv_close_device(self.context.as_ptr()) };
    }
}

/// Makes reads of an empty libibverbs descriptor fail with EAGAIN instead of blocking.
pub(super) fn nonblocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let set = fcntl_getfl(fd).and_then(|flags| fcntl_setfl(fd, flags | OFlags::NONBLOCK));
    set.map_err(|error| Errno(error.raw_os_error()))
}

/// Attributes that are all zero, for tests.
#[cfg(test)]
pub(super) fn no_attributes() -> ibv_device_attr_ex {
    // SAFETY: a struct of numbers, for which all zero bits are a valid value.
    unsafe { zeroed() }
}
