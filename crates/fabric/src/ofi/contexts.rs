//! Room that a provider may write notes into while an operation is in flight, at addresses that stay.
//!
//! Unsafe here: the room may be sent to another thread with its lane. Nobody but the provider looks inside.
#![allow(unsafe_code, reason = "holds memory that providers write to")]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null_mut;

use rdma_sys::ofi::work::fi_context2;

pub(super) struct Contexts(Box<[UnsafeCell<fi_context2>]>);

// SAFETY: the lane that owns it is used by one thread at a time, and the provider with it.
unsafe impl Send for Contexts {}
// SAFETY: all that is done by a shared reference is to tell addresses.
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

    /// Which one has this address, if one of ours has.
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
    fn contexts_are_known_by_their_place_and_others_are_not() {
        let contexts = Contexts::new(4);
        for index in 0..4 {
            assert_eq!(contexts.index(contexts.at(index).addr()), Some(index));
        }
        let last = contexts.at(3).addr();
        for unknown_peer in [0, last + 8, last + size_of::<fi_context2>()] {
            assert_eq!(contexts.index(unknown_peer), None);
        }
    }
}
