//! A completion channel: the descriptor on which a completion queue's events arrive.
//!
//! Unsafe here: `Channel` owns the C object and the open device.
#![allow(unsafe_code, reason = "owns a completion channel")]

use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::Errno;
use rdma_sys::objects::ibv_comp_channel;

use super::context::{Context, nonblocking};

pub(super) struct Channel {
    context: Arc<Context>,
    channel: NonNull<ibv_comp_channel>,
}

// SAFETY: libibverbs' objects may be used from any thread, and from several concurrently.
unsafe impl Send for Channel {}
// SAFETY: methods that take `&self` may be called from several threads: libibverbs locks its objects.
unsafe impl Sync for Channel {}

impl Channel {
    pub(super) fn new(context: Arc<Context>) -> Result<Self, Errno> {
        // SAFETY: the device is open as long as `context` is alive, which `Channel` owns.
        let channel = unsafe { context.verbs().ibv_create_comp_channel(context.as_ptr()) }?;
        let channel = Channel { context, channel };
        nonblocking(channel.fd())?;
        Ok(channel)
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_comp_channel {
        self.channel.as_ptr()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: alive until `Drop`.
        let fd = unsafe { (*self.channel.as_ptr()).fd };
        // SAFETY: open until `Drop`, which the borrow of `self` prevents.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// Takes one event, if there is one. The caller must acknowledge it to its queue.
    pub(super) fn take_event(&self) -> bool {
        let (mut cq, mut cq_context) = (null_mut(), null_mut());
        let verbs = self.context.verbs();
        // SAFETY: alive until `Drop`; both places are writable. It does not block, see `new`.
        unsafe { verbs.ibv_get_cq_event(self.channel.as_ptr(), &mut cq, &mut cq_context) }.is_ok()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: created in `new`, freed here only; its queue owned it and was destroyed before. May fail after
        // the device was removed; nothing is left to do then.
        let _ = unsafe { self.context.verbs().ibv_destroy_comp_channel(self.channel.as_ptr()) };
    }
}
