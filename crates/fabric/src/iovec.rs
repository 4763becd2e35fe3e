//! Raw ranges of memory for the kernel or a ring to read or fill.
//!
//! Unsafe here: an `IoVec` is an address and promises nothing; its user ensures that it is valid.
#![allow(unsafe_code, reason = "declares that addresses may be sent between threads")]

use crate::region::Slice;

/// An address and a length, laid out like the kernel's `iovec`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct IoVec {
    pub(crate) address: *mut u8,
    pub(crate) length: usize,
}

// SAFETY: an address means the same on every thread.
unsafe impl Send for IoVec {}

impl IoVec {
    pub(crate) fn of_bytes(bytes: &mut [u8]) -> IoVec {
        IoVec { address: bytes.as_mut_ptr(), length: bytes.len() }
    }

    /// For reading only.
    pub(crate) fn of_const(bytes: &[u8]) -> IoVec {
        IoVec { address: bytes.as_ptr().cast_mut(), length: bytes.len() }
    }
}

/// Appends the ranges of `slices` from byte `skip` on, `length` bytes in all.
#[inline]
pub(crate) fn append(parts: &mut Vec<IoVec>, slices: &[Slice], mut skip: usize, mut length: usize) {
    for slice in slices {
        if length == 0 {
            return;
        }
        if skip >= slice.len() {
            skip -= slice.len();
            continue;
        }
        let take = (slice.len() - skip).min(length);
        parts.push(IoVec { address: slice.address().wrapping_add(skip), length: take });
        length -= take;
        skip = 0;
    }
}
