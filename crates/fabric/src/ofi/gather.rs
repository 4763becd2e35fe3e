//! The pieces of memory that one operation of a provider uses.

use std::ffi::c_void;
use std::ptr::null_mut;

use libc::iovec;

/// Places with their descriptors, in order; the first is left free for a header.
pub(super) struct Gather {
    iov: [iovec; Gather::MOST],
    desc: [*mut c_void; Gather::MOST],
    first: usize,
    end: usize,
}

impl Gather {
    /// The most pieces, header and all.
    pub(super) const MOST: usize = 8;

    pub(super) fn new() -> Self {
        let none = iovec { iov_base: null_mut(), iov_len: 0 };
        Gather { iov: [none; Self::MOST], desc: [null_mut(); Self::MOST], first: 1, end: 1 }
    }

    /// Adds a piece; there must be room.
    #[inline]
    pub(super) fn add(&mut self, at: *mut u8, length: usize, desc: *mut c_void) {
        self.iov[self.end] = iovec { iov_base: at.cast(), iov_len: length };
        self.desc[self.end] = desc;
        self.end += 1;
    }

    /// The same with a header in front.
    #[inline]
    pub(super) fn behind(mut self, at: *mut u8, length: usize, desc: *mut c_void) -> Self {
        self.iov[0] = iovec { iov_base: at.cast(), iov_len: length };
        (self.desc[0], self.first) = (desc, 0);
        self
    }

    pub(super) fn total(&self) -> usize {
        self.iov().iter().map(|piece| piece.iov_len).sum()
    }

    pub(super) fn iov(&self) -> &[iovec] {
        &self.iov[self.first..self.end]
    }

    /// As many as there are pieces.
    pub(super) fn descs(&mut self) -> *mut *mut c_void {
        self.desc[self.first..].as_mut_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_goes_first_and_may_be_missing() {
        let mut gather = Gather::new();
        let mut bytes = [0_u8; 8];
        gather.add(bytes.as_mut_ptr(), 3, null_mut());
        gather.add(bytes.as_mut_ptr(), 5, null_mut());
        assert_eq!((gather.iov().len(), gather.total()), (2, 8));
        let gather = gather.behind(bytes.as_mut_ptr(), 1, null_mut());
        assert_eq!((gather.iov().len(), gather.iov()[0].iov_len, gather.total()), (3, 1, 9));
    }
}
