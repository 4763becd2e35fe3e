//! An open fabric of libfabric (`fid_fabric`).
//!
//! Unsafe here: `OpenFabric` owns the C object, created and closed once. `FidDomain` owns it as long as its domain is open.
#![allow(unsafe_code, reason = "owns a fabric of libfabric")]

use std::ptr::{NonNull, null_mut};

use rdma_sys::Errno;
use rdma_sys::ofi::inline::fi_close;
use rdma_sys::ofi::objects::fid_fabric;

use super::info::Info;

pub(super) struct OpenFabric(NonNull<fid_fabric>);

// SAFETY: a fabric may be used from any thread, and from several concurrently.
unsafe impl Send for OpenFabric {}
// SAFETY: libfabric allows calls with one fabric from several threads.
unsafe impl Sync for OpenFabric {}

impl OpenFabric {
    pub(super) fn new(info: &Info) -> Result<Self, Errno> {
        let mut fabric = null_mut();
        // SAFETY: the entry and its parts are alive during the call; `fabric` is writable.
        unsafe { info.ofi().fi_fabric((*info.as_ptr()).fabric_attr, &mut fabric, null_mut()) }?;
        NonNull::new(fabric).map(OpenFabric).ok_or(Errno(libc::EIO))
    }

    pub(super) fn as_ptr(&self) -> *mut fid_fabric {
        self.0.as_ptr()
    }
}

impl Drop for OpenFabric {
    fn drop(&mut self) {
        // SAFETY: created in `new`, closed here only, after everything that was opened in it.
        let _ = unsafe { fi_close(self.0.as_ptr().cast()) };
    }
}
