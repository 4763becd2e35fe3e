//! The pieces of memory that one operation of a provider uses.

use std::ffi::c_void;
use std::ptr::null_mut;

use libc::iovec;

/// Places with their descriptors, in order.
pub(super) struct Gather {
    iov: [iovec; Gather::MOST],
    desc: [*mut c_void; Gather::MOST],
    count: usize,
}

impl Gather {
    pub(super) const MOST: usize = 8;

    pub(super) fn new() -> Self {
        let none = iovec { iov_base: null_mut(), iov_len: 0 };
        Gather { iov: [none; Self::MOST], desc: [null_mut(); Self::MOST], count: 0 }
    }

    /// Adds a piece; there must be room.
    #[inline]
    pub(super) fn add(&mut self, at: *mut u8, length: usize, desc: *mut c_void) {
        self.iov[self.count] = iovec { iov_base: at.cast(), iov_len: length };
        self.desc[self.count] = desc;
        self.count += 1;
    }

    pub(super) fn total(&self) -> usize {
        self.iov().iter().map(|piece| piece.iov_len).sum()
    }

    pub(super) fn iov(&self) -> &[iovec] {
        &self.iov[..self.count]
    }

    /// As many as there are pieces.
    pub(super) fn descs(&mut self) -> *mut *mut c_void {
        self.desc.as_mut_ptr()
    }
}
