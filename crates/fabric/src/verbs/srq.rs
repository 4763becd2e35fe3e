//! A shared receive queue.
//!
//! Unsafe here: `Srq` owns the C object and its domain.
#![allow(unsafe_code, reason = "owns a shared receive queue")]

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::Errno;
use rdma_sys::objects::{ibv_srq, ibv_srq_attr, ibv_srq_init_attr};

use super::domain::Pd;
use crate::unreleased::leak_counted;

pub(super) struct Srq {
    pd: Arc<Pd>,
    srq: NonNull<ibv_srq>,
    destroyed: bool,
}

// SAFETY: libibverbs' objects may be used from any thread, and from several concurrently.
unsafe impl Send for Srq {}
// SAFETY: methods that take `&self` may be called from several threads: libibverbs locks its objects.
unsafe impl Sync for Srq {}

impl Srq {
    pub(super) fn new(pd: Arc<Pd>, max_wr: u32, max_sge: u32) -> Result<Self, Errno> {
        let mut attr = ibv_srq_init_attr {
            srq_context: null_mut(),
            attr: ibv_srq_attr { max_wr, max_sge, srq_limit: 0 },
        };
        // SAFETY: the domain is alive as long as `Srq`, which owns it, and `attr` during the call.
        let srq = unsafe { pd.context().verbs().ibv_create_srq(pd.as_ptr(), &mut attr) }?;
        Ok(Srq { pd, srq, destroyed: false })
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_srq {
        self.srq.as_ptr()
    }
}

impl Srq {
    /// Destroys it: after that the device does not write into posted receives, and only `drop` may follow. `false` if the
    /// device refuses.
    pub(super) fn destroy(&mut self) -> bool {
        if !self.destroyed {
            let context = self.pd.context();
            // SAFETY: created in `new`, not destroyed yet; its queue pairs own it and were dropped before.
            let destroyed = unsafe { context.verbs().ibv_destroy_srq(self.srq.as_ptr()) }.is_ok();
            // The kernel has destroyed the objects of a removed device.
            self.destroyed = destroyed || !context.is_listed();
        }
        self.destroyed
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        if !self.destroy() {
            // The domain cannot be freed before it.
            leak_counted(self.pd.clone());
        }
    }
}
