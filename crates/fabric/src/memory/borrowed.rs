//! Bytes that the caller owned before.
//!
//! Unsafe here: `Lent` holds the bytes as a raw place from the moment it gets them, so that no Rust
//! reference to them exists while peers may write; it makes them a box again in `take_back` or `Drop`.
#![allow(unsafe_code, reason = "holds a box as a raw place")]

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

#[derive(Debug)]
pub(super) struct Lent {
    bytes: NonNull<[u8]>,
    boxed: bool,
}

// SAFETY: owned or static bytes, bound to no thread; accessed through `Memory` only.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl Lent {
    pub(super) fn boxed(bytes: Box<[u8]>) -> Self {
        Lent { bytes: NonNull::from(Box::leak(bytes)), boxed: true }
    }

    pub(super) fn forever(bytes: &'static mut [u8]) -> Self {
        Lent { bytes: NonNull::from(bytes), boxed: false }
    }

    pub(super) fn address(&self) -> NonNull<u8> {
        self.bytes.cast()
    }

    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn take_back(self) -> Result<Box<[u8]>, Self> {
        if !self.boxed {
            return Err(self);
        }
        let kept = ManuallyDrop::new(self);
        // SAFETY: leaked from a box in `boxed`, and `Drop` does not run for it.
        Ok(unsafe { Box::from_raw(kept.bytes.as_ptr()) })
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.boxed {
            // SAFETY: leaked from a box in `boxed`, and made one again here only.
            drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
        }
    }
}
