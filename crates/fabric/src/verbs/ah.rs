//! An address handle: the destination of datagrams.
//!
//! Unsafe here: `Ah` owns the C object and its domain.
#![allow(unsafe_code, reason = "owns an address handle")]

use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::Errno;
use rdma_sys::objects::{ibv_ah, ibv_ah_attr};

use super::domain::Pd;

pub(super) struct Ah {
    pd: Arc<Pd>,
    ah: NonNull<ibv_ah>,
}

// SAFETY: libibverbs' objects may be used from any thread, and from several concurrently.
unsafe impl Send for Ah {}
// SAFETY: methods that take `&self` may be called from several threads: libibverbs locks its objects.
unsafe impl Sync for Ah {}

impl Ah {
    pub(super) fn new(pd: Arc<Pd>, mut address: ibv_ah_attr) -> Result<Self, Errno> {
        // SAFETY: the domain is alive as long as `Ah`, which owns it, and `address` during the call.
        let ah = unsafe { pd.context().verbs().ibv_create_ah(pd.as_ptr(), &mut address) }?;
        Ok(Ah { pd, ah })
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_ah {
        self.ah.as_ptr()
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: created in `new`, freed here only; the lane that used it has ended. May fail after the
        // device was removed; nothing is left to do then.
        let _ = unsafe { self.pd.context().verbs().ibv_destroy_ah(self.ah.as_ptr()) };
    }
}
