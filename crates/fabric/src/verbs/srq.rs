//! A shared receive queue.
//!
//! Unsafe here: `Srq` owns the C object and its domain.
#![allow(unsafe_code, reason = "owns a shared receive queue")]

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::Errno;
use rdma_sys::objects::{ibv_srq, ibv_srq_attr, ibv_srq_init_attr};

use super::config::Sizes;
use super::domain::Pd;

pub(super) struct Srq {
    pd: Arc<Pd>,
    srq: NonNull<ibv_srq>,
}

// SAFETY: libibverbs' objects may be used from any thread, and from several concurrently.
unsafe impl Send for Srq {}
// SAFETY: as above.
unsafe impl Sync for Srq {}

impl Srq {
    pub(super) fn new(pd: Arc<Pd>, sizes: &Sizes) -> Result<Self, Errno> {
        let (max_wr, max_sge) = (sizes.recv_wr, sizes.recv_sge);
        let mut attr = ibv_srq_init_attr {
            srq_context: null_mut(),
            attr: ibv_srq_attr { max_wr, max_sge, srq_limit: 0 },
        };
        // SAFETY: the domain is alive as long as `Srq`, which owns it, and `attr` during the call.
        let srq = unsafe { pd.context().verbs().ibv_create_srq(pd.as_ptr(), &mut attr) }?;
        Ok(Srq { pd, srq })
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_srq {
        self.srq.as_ptr()
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // SAFETY: created in `new`, freed here only; its queue pairs own it and were dropped before. May fail after the
        // device was removed; nothing is left to do then.
        let _ = unsafe { self.pd.context().verbs().ibv_destroy_srq(self.srq.as_ptr()) };
    }
}
