//! The receive side: the buffers for a client's messages, and the receives for them.
//!
//! The receive of a buffer is queued here, or posted; a buffer whose receive failed has none, since the link has ended.
//! The link is not destroyed while any is posted.

use std::collections::VecDeque;

use fabric::link::Link;
use fabric::{Lane, Op};

use super::completion_id::CompletionId;
use crate::workers::receive_areas::{RECEIVES, ReceiveArea};

pub(super) struct Receives {
    area: ReceiveArea,
    /// Receives that are not posted yet.
    queued: VecDeque<Op>,
    /// The number of posted receives.
    posted: usize,
}

impl Receives {
    /// Queues a receive for each buffer.
    pub(super) fn new(area: ReceiveArea) -> Self {
        let mut receives = Receives { area, queued: VecDeque::new(), posted: 0 };
        (0..RECEIVES).for_each(|buffer| receives.queue(buffer as u32));
        receives
    }

    /// The memory of the buffers; parts of it are for the slot block.
    #[inline]
    pub(super) fn area(&self) -> &ReceiveArea {
        &self.area
    }

    /// Queues the receive of a buffer whose message was read.
    #[inline]
    pub(super) fn queue(&mut self, buffer: u32) {
        self.queued
            .push_back(self.area.receive(buffer as usize, CompletionId::Receive(buffer).encode()));
    }

    #[inline]
    pub(super) fn post(&mut self, link: &mut Link) {
        if !self.queued.is_empty() {
            self.posted += link.post(&mut self.queued);
        }
    }

    /// Counts a completion.
    #[inline]
    pub(super) fn completed(&mut self) {
        self.posted -= 1;
    }

    /// Whether none is posted.
    pub(super) fn is_idle(&self) -> bool {
        self.posted == 0
    }

    pub(super) fn into_area(self) -> ReceiveArea {
        self.area
    }
}
