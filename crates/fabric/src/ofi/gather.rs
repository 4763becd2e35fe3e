//! The memory of one provider operation, as `iovec`s.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use libc::iovec;

use super::mr::registration;
use crate::region::Slice;
use crate::registration::ofi::Mr;

/// `iovec`s with their descriptors, in order; the first is reserved for a header.
pub(super) struct Gather {
    iov: [iovec; Gather::MAX],
    desc: [*mut c_void; Gather::MAX],
    registrations: HeldRegistrations,
    first: usize,
    end: usize,
}

/// The registrations of the `iovec`s. A descriptor points to one of them, so they must stay as long as the
/// provider uses it, even if their regions are detached meanwhile.
#[derive(Default)]
pub(super) struct HeldRegistrations([Option<Arc<Mr>>; Gather::MAX]);

impl Gather {
    /// The maximum number of `iovec`s, including the header.
    pub(super) const MAX: usize = 8;

    pub(super) fn new() -> Self {
        let none = iovec { iov_base: null_mut(), iov_len: 0 };
        let (iov, desc) = ([none; Self::MAX], [null_mut(); Self::MAX]);
        Gather { iov, desc, registrations: HeldRegistrations::default(), first: 1, end: 1 }
    }

    /// Adds bytes of a slice; there must be space. `false` if it is no longer registered with this domain.
    #[inline]
    pub(super) fn add(&mut self, slice: &Slice, from: usize, length: usize, domain: u32) -> bool {
        let Some(mr) = registration(slice.region(), domain) else { return false };
        let at = slice.address().wrapping_add(from);
        self.iov[self.end] = iovec { iov_base: at.cast(), iov_len: length };
        self.desc[self.end] = mr.desc();
        self.registrations.0[self.end] = Some(mr);
        self.end += 1;
        true
    }

    /// Sets the header, whose registration the caller owns.
    #[inline]
    pub(super) fn put_first(&mut self, at: *mut u8, length: usize, desc: *mut c_void) {
        self.iov[0] = iovec { iov_base: at.cast(), iov_len: length };
        (self.desc[0], self.first) = (desc, 0);
    }

    pub(super) fn total(&self) -> usize {
        self.iov[self.first..self.end].iter().map(|iov| iov.iov_len).sum()
    }

    /// The `iovec`s and their descriptors.
    #[inline]
    pub(super) fn parts(&mut self) -> (&[iovec], &mut [*mut c_void]) {
        let range = self.first..self.end;
        (&self.iov[range.clone()], &mut self.desc[range])
    }

    /// The registrations, which must stay while the provider uses the memory.
    pub(super) fn into_registrations(self) -> HeldRegistrations {
        self.registrations
    }
}

impl HeldRegistrations {
    /// The provider has finished with the memory.
    #[inline]
    pub(super) fn release(&mut self) {
        // The first belongs to the header and is always empty; the others are filled in order.
        for registrations in &mut self.0[1..] {
            if registrations.take().is_none() {
                break;
            }
        }
    }
}
