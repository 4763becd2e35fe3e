//! A mapped memfd: the owner of the pages.
//!
//! Unsafe here: `Mapping` maps its pages once, in `new`, and unmaps them in `Drop` only. Its bytes are
//! accessed through `Memory`, which owns it as long as it uses them.
#![allow(unsafe_code, reason = "maps memory")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{Advice, ProtFlags, madvise, munmap};

use super::aligned_mapping::{HUGE_PAGE, map_shared};

/// A shared mapping of a memfd of our own.
#[derive(Debug)]
pub(super) struct Mapping {
    file: OwnedFd,
    address: NonNull<u8>,
    /// A multiple of the page size.
    length: usize,
    page_size: usize,
    /// Whether the file was passed to another process for writing.
    shared_for_writing: Mutex<bool>,
}

// SAFETY: the pages belong to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: `&self` allows only atomics, locked access and system calls.
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
        // If the file became shorter, processes that map it would get a SIGBUS.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let address = map_shared(&file, length, protection)?;
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { file, address, length, page_size, shared_for_writing: Mutex::new(false) })
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn page_size(&self) -> usize {
        self.page_size
    }

    pub(super) fn address(&self) -> NonNull<u8> {
        self.address
    }

    pub(super) fn shared_for_writing(&self) -> MutexGuard<'_, bool> {
        self.shared_for_writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Faults in the pages of this range. Start and length are multiples of the page size.
    pub(super) fn populate(&self, start: usize, length: usize) -> io::Result<()> {
        // SAFETY: the range is within the mapping: `prefault` splits `length()`.
        let from = unsafe { self.address.add(start).as_ptr() };
        // SAFETY: `from` and `length` are within the mapping: `prefault` splits `length()`; populating changes no byte.
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

    /// Replaces the plain pages of this range by huge ones, where they are complete and not pinned by a device; returns the number
    /// of its bytes in huge pages. Other processes that map the file get them too. After a few failures it tries no more: each costs
    /// all CPUs some time, and a device pins all pages or none.
    pub(super) fn collapse(&self, start: usize, length: usize) -> usize {
        if self.page_size >= HUGE_PAGE {
            return length;
        }
        let whole = length - length % HUGE_PAGE;
        let (mut huge, mut failures) = (0, 0);
        for at in (start..start + whole).step_by(HUGE_PAGE) {
            // SAFETY: the range is within the mapping: `prefault` splits `length()`.
            let from = unsafe { self.address.add(at).as_ptr() };
            // SAFETY: `from` and the huge page after it are within the mapping; collapsing changes no byte.
            match unsafe { libc::madvise(from.cast(), HUGE_PAGE, libc::MADV_COLLAPSE) } {
                0 => huge += HUGE_PAGE,
                _ => failures += 1,
            }
            if failures >= MAX_COLLAPSE_FAILURES {
                break;
            }
        }
        huge
    }

    /// Atomically adds zero to a word of every page, which faults it in and cannot undo a concurrent write.
    fn touch(&self, start: usize, length: usize) {
        for page in (start..start + length).step_by(self.page_size) {
            // SAFETY: the start of a page of ours, which lives as long as `self`.
            let word = unsafe { AtomicU64::from_ptr(self.address.add(page).as_ptr().cast()) };
            word.fetch_add(0, Ordering::Relaxed);
        }
    }

    /// The number of its bytes in memory.
    #[cfg(test)]
    pub(super) fn resident(&self) -> usize {
        let status = rustix::fs::fstat(&self.file).expect("our own file");
        usize::try_from(status.st_blocks).expect("a count") * 512
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, unmapped only here; `Memory` owns the mapping
        // in an `Arc`, so the pages are unused now. A failure cannot be handled.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.length) };
    }
}

/// Failures to collapse pages of one range.
const MAX_COLLAPSE_FAILURES: usize = 4;
