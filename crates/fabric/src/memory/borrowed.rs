//! Bytes that the caller owned before.
//!
//! Unsafe here: `Caller-owned` holds the bytes as a raw place from the moment it gets them, so that no Rust
//! reference to them exists while peers may write; it makes them a box again in `into_boxed` or `Drop`.
#![allow(unsafe_code, reason = "holds a box as a raw place")]

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

#[derive(Debug)]
pub(super) struct Borrowed {
    bytes: NonNull<[u8]>,
    boxed: bool,
}

// SAFETY: owned or static bytes, bound to no thread; accessed through `Memory` only.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl Borrowed {
    pub(super) fn boxed(bytes: Box<[u8]>) -> Self {
        Borrowed { bytes: NonNull::from(Box::leak(bytes)), boxed: true }
    }

    pub(super) fn forever(bytes: &'static mut [u8]) -> Self {
        Borrowed { bytes: NonNull::from(bytes), boxed: false }
    }

    pub(super) fn address(&self) -> NonNull<u8> {
        self.bytes.cast()
    }

    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn into_boxed(self) -> Result<Box<[u8]>, Self> {
        if !self.boxed {
            return Err(self);
        }
        let kept = ManuallyDrop::new(self);
        // SAFETY: leaked from a box in `boxed`, and `Drop` does not run for it.
        Ok(unsafe { Box::from_raw(kept.bytes.as_ptr()) })
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if self.boxed {
            // SAFETY: leaked from a box in `boxed`, and made one again here only.
            drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
        }
    }
}
