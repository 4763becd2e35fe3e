//! The pieces of memory that one operation of a provider uses.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use libc::iovec;

use super::mr::registration;
use crate::region::Slice;
use crate::registration::ofi::Mr;

/// Places with their descriptors, in order; the first is left free for a header.
pub(super) struct Gather {
    iov: [iovec; Gather::MAX],
    desc: [*mut c_void; Gather::MAX],
    held: Held,
    first: usize,
    end: usize,
}

/// The registrations that pieces lie in. A descriptor is a pointer to one of them, so that they stay as long as the
/// provider works with it, whoever takes them off their regions meanwhile.
#[derive(Default)]
pub(super) struct Held([Option<Arc<Mr>>; Gather::MAX]);

impl Gather {
    /// The most pieces, header and all.
    pub(super) const MAX: usize = 8;

    pub(super) fn new() -> Self {
        let none = iovec { iov_base: null_mut(), iov_len: 0 };
        let (iov, desc) = ([none; Self::MAX], [null_mut(); Self::MAX]);
        Gather { iov, desc, held: Held::default(), first: 1, end: 1 }
    }

    /// Adds bytes of a slice; there must be room. `false`: it is not registered with this device any more.
    #[inline]
    pub(super) fn add(&mut self, slice: &Slice, from: usize, length: usize, domain: u32) -> bool {
        let Some(mr) = registration(slice.region(), domain) else { return false };
        let at = slice.address().wrapping_add(from);
        self.iov[self.end] = iovec { iov_base: at.cast(), iov_len: length };
        self.desc[self.end] = mr.desc();
        self.held.0[self.end] = Some(mr);
        self.end += 1;
        true
    }

    /// Puts a header in front, which is in a registration that its caller holds.
    #[inline]
    pub(super) fn put_first(&mut self, at: *mut u8, length: usize, desc: *mut c_void) {
        self.iov[0] = iovec { iov_base: at.cast(), iov_len: length };
        (self.desc[0], self.first) = (desc, 0);
    }

    pub(super) fn total(&self) -> usize {
        self.iov[self.first..self.end].iter().map(|piece| piece.iov_len).sum()
    }

    /// The pieces, and as many descriptors.
    #[inline]
    pub(super) fn parts(&mut self) -> (&[iovec], &mut [*mut c_void]) {
        let range = self.first..self.end;
        (&self.iov[range.clone()], &mut self.desc[range])
    }

    /// What must stay while the provider works with the pieces.
    pub(super) fn into_held(self) -> Held {
        self.held
    }
}

impl Held {
    /// The provider is done with the pieces.
    #[inline]
    pub(super) fn let_go(&mut self) {
        // The first is the header's, which is not held here; the others are filled in order.
        for held in &mut self.0[1..] {
            if held.take().is_none() {
                break;
            }
        }
    }
}
