//! Mapped pages of a memfd, and a peer's region as such pages.
//!
//! Unsafe here: `MappedPages` maps a file once and unmaps it in `Drop`. A file of a peer's is mapped only if it
//! is sealed against shrinking, so that its pages stay; for huge pages see `is_huge`. The bytes are
//! accessed only by `copy` and atomics.
#![allow(unsafe_code, reason = "maps files and touches their bytes")]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::mm::{ProtFlags, munmap};

use super::control_block::{GrantId, PeerControlBlock};
use crate::memory::aligned_mapping::map_shared;
use crate::memory::copy::copy;
use crate::region::Slice;

/// Mapped pages.
#[derive(Debug)]
pub(crate) struct MappedPages {
    address: NonNull<u8>,
    length: usize,
}

// SAFETY: the pages belong to the process, not to a thread.
unsafe impl Send for MappedPages {}
// SAFETY: all access is by `copy` and atomics.
unsafe impl Sync for MappedPages {}

impl MappedPages {
    pub(crate) fn map(file: impl AsFd, length: usize, rights: ProtFlags) -> io::Result<Self> {
        let address = map_shared(file, length, rights)?;
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(MappedPages { address, length })
    }

    /// Maps a peer's file, which must have at least `min_length` bytes and be sealed against shrinking.
    pub(crate) fn map_sealed(
        file: &OwnedFd,
        min_length: usize,
        rights: ProtFlags,
    ) -> io::Result<Self> {
        let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
        let needed = SealFlags::SHRINK | SealFlags::GROW;
        let seals = fcntl_get_seals(file).map_err(|_| invalid("the descriptor is not a memfd"))?;
        if !seals.contains(needed) {
            return Err(invalid("the memfd is not sealed: its owner could shorten it"));
        }
        let length = usize::try_from(fstat(file)?.st_size).unwrap_or(0);
        if length < min_length {
            return Err(invalid("the memfd is too short"));
        }
        Self::map(file, length, rights)
    }

    #[inline]
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.length);
        self.address.as_ptr().wrapping_add(offset)
    }
}

/// Whether a file has huge pages. A process that may write such a file can free its pages; if
/// no huge page is left, the next process that accesses them is killed.
pub(crate) fn is_huge(file: &OwnedFd) -> io::Result<bool> {
    const HUGETLBFS: i64 = 0x9584_58f6;
    Ok(rustix::fs::fstatfs(file)?.f_type & 0xffff_ffff == HUGETLBFS)
}

impl Drop for MappedPages {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, unmapped only here. A failure cannot be handled.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.length) };
    }
}

/// A mapped region of the peer.
#[derive(Debug)]
pub(crate) struct PeerMapping {
    pages: MappedPages,
    control_block: Arc<PeerControlBlock>,
    grant: GrantId,
}

impl PeerMapping {
    pub(crate) fn new(
        file: &OwnedFd,
        length: usize,
        writable: bool,
        control_block: Arc<PeerControlBlock>,
        grant: GrantId,
    ) -> io::Result<Self> {
        let rights = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let pages = MappedPages::map_sealed(file, length, rights)?;
        Ok(PeerMapping { pages, control_block, grant })
    }

    pub(crate) fn grant(&self) -> GrantId {
        self.grant
    }

    /// Whether the grant is still valid. To be called after `ControlBlock::start_access`.
    #[inline]
    pub(crate) fn is_granted(&self) -> bool {
        self.control_block.is_granted(self.grant)
    }

    /// Copies local slices to `offset` on. The caller has checked the window's bounds, which are
    /// within the pages.
    #[inline]
    pub(crate) fn write(&self, slices: &[Slice], mut offset: usize) {
        for slice in slices {
            assert!(offset + slice.len() <= self.pages.length);
            // SAFETY: just checked; the slice owns its bytes. If both are the same pages of one
            // memory, the copy may read its own writes, like any concurrent ones.
            unsafe { copy(self.pages.at_end(offset), slice.address(), slice.len()) };
            offset += slice.len();
        }
        // Orders the bytes before whatever announces them.
        fence(Ordering::Release);
    }

    /// As [`PeerMapping::write`], for borrowed bytes.
    #[inline]
    pub(crate) fn write_bytes(&self, bytes: &[u8], offset: usize) {
        assert!(offset + bytes.len() <= self.pages.length);
        // SAFETY: just checked; `bytes` is borrowed, and no part of these pages.
        unsafe { copy(self.pages.at_end(offset), bytes.as_ptr(), bytes.len()) };
    }

    /// Copies bytes from `offset` on into local slices.
    #[inline]
    pub(crate) fn read(&self, slices: &[Slice], mut offset: usize) {
        fence(Ordering::Acquire);
        for slice in slices {
            assert!(offset + slice.len() <= self.pages.length);
            // SAFETY: just checked; the slice owns its bytes.
            unsafe { copy(slice.address(), self.pages.at_end(offset), slice.len()) };
            offset += slice.len();
        }
    }

    /// As [`PeerMapping::read`], into bytes of this process alone.
    #[inline]
    pub(crate) fn read_bytes(&self, bytes: &mut [u8], offset: usize) {
        assert!(offset + bytes.len() <= self.pages.length);
        fence(Ordering::Acquire);
        // SAFETY: just checked; `bytes` is borrowed, and no part of these pages.
        unsafe { copy(bytes.as_mut_ptr(), self.pages.at_end(offset), bytes.len()) };
    }

    /// The word at an aligned offset, which the caller has checked to be within the window.
    pub(crate) fn word64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.pages.length);
        // SAFETY: eight aligned bytes within the pages, which live as long as `self`.
        unsafe { AtomicU64::from_ptr(self.pages.at(offset).cast()) }
    }
}

impl MappedPages {
    /// As `at`; an empty range may be at the end.
    #[inline]
    fn at_end(&self, offset: usize) -> *mut u8 {
        self.address.as_ptr().wrapping_add(offset)
    }
}
