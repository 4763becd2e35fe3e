//! Private memory: bytes that the caller passed in. They are in no file, so other processes cannot map them.
//!
//! Unsafe here: `PrivateBytes` keeps the bytes as a raw pointer from the start, so that no Rust
//! reference to them exists while peers may write; it turns them into a box again in `into_boxed` or `Drop`.
#![allow(unsafe_code, reason = "keeps a box as a raw pointer")]

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

#[derive(Debug)]
pub(super) struct PrivateBytes {
    bytes: NonNull<[u8]>,
    boxed: bool,
}

// SAFETY: owned or static bytes, bound to no thread; accessed through `Memory` only.
unsafe impl Send for PrivateBytes {}
// SAFETY: `&self` gives out only the address and the length; `Memory` accesses the bytes by atomics and `copy`.
unsafe impl Sync for PrivateBytes {}

impl PrivateBytes {
    pub(super) fn boxed(bytes: Box<[u8]>) -> Self {
        PrivateBytes { bytes: NonNull::from(Box::leak(bytes)), boxed: true }
    }

    pub(super) fn from_static(bytes: &'static mut [u8]) -> Self {
        PrivateBytes { bytes: NonNull::from(bytes), boxed: false }
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
        let leaked = ManuallyDrop::new(self);
        // SAFETY: leaked from a box in `boxed`, and `Drop` does not run for it.
        Ok(unsafe { Box::from_raw(leaked.bytes.as_ptr()) })
    }
}

impl Drop for PrivateBytes {
    fn drop(&mut self) {
        if self.boxed {
            // SAFETY: leaked from a box in `boxed`, and turned into a box only here.
            drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
        }
    }
}
