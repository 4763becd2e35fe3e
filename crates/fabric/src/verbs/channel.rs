//! A completion channel: the descriptor on which a completion queue's events arrive.
//!
//! Unsafe here: `Channel` owns the C object and holds the open device.
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

// SAFETY: libibverbs' objects may be used from any thread, and from several at once.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl Channel {
    pub(super) fn new(context: Arc<Context>) -> Result<Self, Errno> {
        // SAFETY: the device is open as long as `context` lives, which `Channel` holds.
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
        // SAFETY: open until `Drop`, which the borrow of `self` keeps off.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// Takes one event, if there is one. The queue it is of must be told.
    pub(super) fn take_event(&self) -> bool {
        let (mut cq, mut cq_context) = (null_mut(), null_mut());
        let verbs = self.context.verbs();
        // SAFETY: alive until `Drop`; both places are writable. It does not block, see `new`.
        unsafe { verbs.ibv_get_cq_event(self.channel.as_ptr(), &mut cq, &mut cq_context) }.is_ok()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made in `new`, freed here only; the queue made on it held it and is gone. After
        // the device went away this may fail, and leaves nothing to be done.
        let _ = unsafe { self.context.verbs().ibv_destroy_comp_channel(self.channel.as_ptr()) };
    }
}
