//! A completion queue with its completion channel.
//!
//! Unsafe here: `Cq` owns the C object, its channel and the open device.
#![allow(unsafe_code, reason = "owns a completion queue")]

use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::objects::ibv_cq;
use rdma_sys::work::ibv_wc;
use rdma_sys::{Errno, inline};

use super::channel::Channel;
use super::context::Context;

pub(super) struct Cq {
    context: Arc<Context>,
    cq: NonNull<ibv_cq>,
    channel: Channel,
}

// SAFETY: libibverbs' objects may be used from any thread, and from several concurrently.
unsafe impl Send for Cq {}
// SAFETY: methods that take `&self` may be called from several threads: libibverbs locks its objects.
unsafe impl Sync for Cq {}

impl Cq {
    /// `vector` chooses the interrupt, and with it the CPU that handles events.
    pub(super) fn new(context: Arc<Context>, entries: u32, vector: u32) -> Result<Self, Errno> {
        let channel = Channel::new(context.clone())?;
        let vectors = context.completion_vectors().max(1);
        let vector = (vector % vectors.unsigned_abs()).cast_signed();
        // SAFETY: the device is open and the channel alive as long as `Cq`, which owns both.
        let cq = unsafe {
            let entries = entries.cast_signed();
            let channel = channel.as_ptr();
            context.verbs().ibv_create_cq(context.as_ptr(), entries, null_mut(), channel, vector)
        }?;
        Ok(Cq { context, cq, channel })
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_cq {
        self.cq.as_ptr()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }

    /// Fills `wcs` from the front; returns the number of completions.
    #[inline]
    pub(super) fn poll(&self, wcs: &mut [ibv_wc]) -> Result<usize, Errno> {
        let capacity = i32::try_from(wcs.len()).unwrap_or(i32::MAX);
        // SAFETY: alive until `Drop`; `wcs` has `capacity` writable entries, and the device fills at most
        // that many.
        unsafe { inline::ibv_poll_cq(self.cq.as_ptr(), capacity, wcs.as_mut_ptr()) }
    }

    /// Requests an event for the next completion.
    pub(super) fn request_event(&self) -> Result<(), Errno> {
        // SAFETY: alive until `Drop`.
        unsafe { inline::ibv_req_notify_cq(self.cq.as_ptr(), 0) }
    }

    /// Takes all events, and acknowledges them: the queue cannot be destroyed before.
    pub(super) fn drain_events(&self) {
        while self.channel.take_event() {
            // SAFETY: alive until `Drop`; no other queue uses this channel, so the event is of this one.
            unsafe { self.context.verbs().ibv_ack_cq_events(self.cq.as_ptr(), 1) };
        }
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: created in `new`, freed here only; its queue pairs own it and were dropped before, and every
        // event was acknowledged. May fail after the device was removed; nothing is left to do then.
        let _ = unsafe { self.context.verbs().ibv_destroy_cq(self.cq.as_ptr()) };
    }
}
