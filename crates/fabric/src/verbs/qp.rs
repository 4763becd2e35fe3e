//! A queue pair.
//!
//! Unsafe here: `Qp` owns the C object, its domain and its queues.
#![allow(unsafe_code, reason = "owns a queue pair")]

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::Errno;
use rdma_sys::consts::*;
use rdma_sys::objects::{ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr};

use super::config::{QpType, Sizes};
use super::cq::Cq;
use super::domain::Pd;
use super::srq::Srq;
use super::zero::zeroed;
use crate::unreleased::leak_counted;

pub(super) struct Qp {
    pd: Arc<Pd>,
    qp: NonNull<ibv_qp>,
    /// The maximum inline data that the device accepted.
    inline: u32,
    destroyed: bool,
    cq: Arc<Cq>,
    srq: Option<Arc<Srq>>,
}

// SAFETY: libibverbs' objects may be used from any thread, and from several concurrently.
unsafe impl Send for Qp {}
// SAFETY: methods that take `&self` may be called from several threads: libibverbs locks its objects.
unsafe impl Sync for Qp {}

impl Qp {
    /// Creates a queue pair, with less inline data if the device refuses.
    pub(super) fn new(
        pd: Arc<Pd>,
        cq: Arc<Cq>,
        srq: Option<Arc<Srq>>,
        kind: QpType,
        sizes: &Sizes,
    ) -> Result<Self, Errno> {
        let mut inline = sizes.inline;
        let qp = loop {
            let mut attr = init_attr(&cq, srq.as_deref(), kind, sizes, inline);
            // SAFETY: the domain and the queues are alive as long as `Qp`, which owns them; `attr`
            // is alive during the call.
            match unsafe { pd.context().verbs().ibv_create_qp(pd.as_ptr(), &mut attr) } {
                Ok(qp) => break qp,
                Err(errno) if inline == 0 => return Err(errno),
                Err(_) => inline /= 2,
            }
        };
        Ok(Qp { pd, qp, inline, destroyed: false, cq, srq })
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_qp {
        self.qp.as_ptr()
    }

    pub(super) fn inline(&self) -> u32 {
        self.inline
    }

    pub(super) fn number(&self) -> u32 {
        // SAFETY: alive until `Drop`.
        unsafe { (*self.qp.as_ptr()).qp_num }
    }

    pub(super) fn modify(&self, mut attr: ibv_qp_attr, mask: i32) -> Result<(), Errno> {
        // SAFETY: alive until `Drop`, as `attr` is during the call.
        unsafe { self.pd.context().verbs().ibv_modify_qp(self.qp.as_ptr(), &mut attr, mask) }
    }

    /// Moves it to the error state: the peer can no longer access memory through it, and all posted requests complete as
    /// flushed. Fails if the device was removed.
    pub(super) fn fail(&self) -> Result<(), Errno> {
        let mut attr: ibv_qp_attr = zeroed();
        attr.qp_state = IBV_QPS_ERR;
        self.modify(attr, IBV_QP_STATE)
    }
}

impl Qp {
    /// Destroys it: after that the device does not access memory through it, and only `drop` may follow. `false` if the
    /// device refuses: it may still access memory, and can be tried again.
    pub(super) fn destroy(&mut self) -> bool {
        if !self.destroyed {
            let context = self.pd.context();
            // SAFETY: created in `new`, not destroyed yet.
            let destroyed = unsafe { context.verbs().ibv_destroy_qp(self.qp.as_ptr()) }.is_ok();
            // The kernel has destroyed the objects of a removed device.
            self.destroyed = destroyed || !context.is_listed();
        }
        self.destroyed
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        if !self.destroy() {
            // What it uses cannot be destroyed before it.
            leak_counted((self.pd.clone(), self.cq.clone(), self.srq.clone()));
        }
    }
}

fn init_attr(
    cq: &Cq,
    srq: Option<&Srq>,
    kind: QpType,
    sizes: &Sizes,
    inline: u32,
) -> ibv_qp_init_attr {
    let mut attr: ibv_qp_init_attr = zeroed();
    attr.send_cq = cq.as_ptr();
    attr.recv_cq = cq.as_ptr();
    attr.srq = srq.map_or(null_mut(), Srq::as_ptr);
    attr.qp_type = if kind == QpType::Ud { IBV_QPT_UD } else { IBV_QPT_RC };
    // With a shared queue the queue pair has no receive queue.
    let own = |size: u32| if srq.is_some() { 0 } else { size };
    attr.cap = ibv_qp_cap {
        max_send_wr: sizes.send_wr,
        max_recv_wr: own(sizes.recv_wr),
        max_send_sge: sizes.send_sge,
        max_recv_sge: own(sizes.recv_sge),
        max_inline_data: inline,
    };
    attr
}
