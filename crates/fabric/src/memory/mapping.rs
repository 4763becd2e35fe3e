//! A mapped memfd: the owner of the pages.
//!
//! Unsafe here: `Mapping` maps its pages once, in `new`, and unmaps them in `Drop` only. Other
//! processes and devices may change the bytes at any time, so no reference to them is ever made:
//! they are copied by pointer, or accessed as atomics. Every method takes offsets that its caller,
//! `Memory`, has checked against the length.
#![allow(unsafe_code, reason = "maps memory and copies by pointer")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// A shared mapping of a memfd of our own.
#[derive(Debug)]
pub(super) struct Mapping {
    file: OwnedFd,
    address: NonNull<u8>,
    /// A multiple of the page size.
    length: usize,
    page_size: usize,
    id: u64,
}

// SAFETY: the pages belong to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: shared access is by pointer copies and atomics, as for any memory that others write.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn plain(length: usize) -> io::Result<Self> {
        Self::new(length, rustix::param::page_size(), MemfdFlags::empty())
    }

    pub(super) fn huge(length: usize) -> io::Result<Self> {
        Self::new(length, HUGE_PAGE, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB)
    }

    fn new(length: usize, page_size: usize, kind: MemfdFlags) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | kind;
        let file = memfd_create("wirelane", flags)?;
        let length =
            length.checked_next_multiple_of(page_size).ok_or(io::ErrorKind::OutOfMemory)?;
        ftruncate(&file, length as u64)?;
        // Whoever maps this file must not find it shorter one day: that would be a SIGBUS.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so no mapping of anybody's is replaced.
        let address = unsafe { mmap(null_mut(), length, protection, MapFlags::SHARED, &file, 0) }?;
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Ok(Mapping { file, address, length, page_size, id })
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn page_size(&self) -> usize {
        self.page_size
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: `Memory` checked that the bytes fit, and they cannot overlap: no slice of these
        // pages exists.
        unsafe {
            let to = self.address.add(offset).as_ptr();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    pub(super) fn read(&self, offset: usize, bytes: &mut [u8]) {
        // SAFETY: as in `write`.
        unsafe {
            let from = self.address.add(offset).as_ptr();
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
        }
    }

    pub(super) fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    pub(super) fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: `Memory` checked that eight bytes fit and that the offset is a multiple of eight,
        // as the mapping's start is; the pages live as long as `self`.
        unsafe { AtomicU64::from_ptr(self.address.add(offset).as_ptr().cast()) }
    }

    /// Brings the pages of this range into memory. Start and length are multiples of the page size.
    pub(super) fn populate(&self, start: usize, length: usize) -> io::Result<()> {
        // SAFETY: the range lies within the mapping: `prefault` cuts it from `length()`.
        let from = unsafe { self.address.add(start).as_ptr() };
        // SAFETY: as above; populating changes no byte.
        let populated = unsafe { madvise(from.cast(), length, Advice::LinuxPopulateWrite) };
        match populated {
            // Kernels before 5.14 do not know the advice.
            Err(rustix::io::Errno::INVAL) => {
                self.touch(start, length);
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Adds nothing to a word of every page, which brings it in and cannot undo another's write.
    fn touch(&self, start: usize, length: usize) {
        for page in (start..start + length).step_by(self.page_size) {
            self.word(page).fetch_add(0, Ordering::Relaxed);
        }
    }

    /// How many bytes of it are in memory.
    #[cfg(test)]
    pub(super) fn resident(&self) -> usize {
        let status = rustix::fs::fstat(&self.file).expect("our own file");
        usize::try_from(status.st_blocks).expect("a count") * 512
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, unmapped here only; `Memory` holds the mapping
        // by `Arc`, so nobody uses the pages any more. A failure leaves nothing to be done.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.length) };
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
const HUGE_PAGE: usize = 2 << 20;
