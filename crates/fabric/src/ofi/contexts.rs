//! Operation contexts (`fi_context2`): memory at fixed addresses that a provider may use while an operation is in flight.
//!
//! Unsafe here: the memory may be sent to another thread with its lane. Only the provider accesses its contents.
#![allow(unsafe_code, reason = "owns memory that providers write to")]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null_mut;

use rdma_sys::ofi::work::fi_context2;

pub(super) struct Contexts(Box<[UnsafeCell<fi_context2>]>);

// SAFETY: the lane that owns it is used by one thread at a time, and the provider with it.
unsafe impl Send for Contexts {}
// SAFETY: a shared reference gives access to addresses only.
unsafe impl Sync for Contexts {}

impl Contexts {
    pub(super) fn new(count: usize) -> Self {
        let one = || UnsafeCell::new(fi_context2 { internal: [null_mut(); 8] });
        Contexts((0..count).map(|_| one()).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn at(&self, index: usize) -> *mut c_void {
        self.0[index].get().cast()
    }

    /// The index of the context at this address, if it is one of these.
    #[inline]
    pub(super) fn index(&self, context: usize) -> Option<usize> {
        let distance = context.checked_sub(self.0.as_ptr().addr())?;
        let size = size_of::<fi_context2>();
        let index = distance / size;
        (distance % size == 0 && index < self.0.len()).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_found_by_their_address() {
        let contexts = Contexts::new(4);
        for index in 0..4 {
            assert_eq!(contexts.index(contexts.at(index).addr()), Some(index));
        }
        let last = contexts.at(3).addr();
        for unknown in [0, last + 8, last + size_of::<fi_context2>()] {
            assert_eq!(contexts.index(unknown), None);
        }
    }
}
