//! Raw pieces of memory for the kernel or a ring to read or fill.
//!
//! Unsafe here: a part is a place and promises nothing; who uses it answers for it.
#![allow(unsafe_code, reason = "declares that places may travel between threads")]

use crate::region::Slice;

/// A place and a length, laid out as the kernel's `iovec`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Part {
    pub(crate) address: *mut u8,
    pub(crate) length: usize,
}

// SAFETY: a place means the same on every thread.
unsafe impl Send for Part {}

impl Part {
    pub(crate) fn of_bytes(bytes: &mut [u8]) -> Part {
        Part { address: bytes.as_mut_ptr(), length: bytes.len() }
    }

    /// For reading only.
    pub(crate) fn of_const(bytes: &[u8]) -> Part {
        Part { address: bytes.as_ptr().cast_mut(), length: bytes.len() }
    }
}

/// Appends the places of `slices` from byte `skip` on, `length` bytes in all.
#[inline]
pub(crate) fn append(parts: &mut Vec<Part>, slices: &[Slice], mut skip: usize, mut length: usize) {
    for slice in slices {
        if length == 0 {
            return;
        }
        if skip >= slice.len() {
            skip -= slice.len();
            continue;
        }
        let take = (slice.len() - skip).min(length);
        parts.push(Part { address: slice.address().wrapping_add(skip), length: take });
        length -= take;
        skip = 0;
    }
}
