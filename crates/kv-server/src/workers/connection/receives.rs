//! The receive side: the places that a client's messages are received into, and the receives for them.
//!
//! A place's receive is queued here, or posted; a place whose receive failed has none, since the link is over. The link
//! is not taken apart while any is posted.

use std::collections::VecDeque;

use fabric::link::Link;
use fabric::{Lane, Op};

use super::token::Token;
use crate::workers::receive_areas::{RECEIVES, ReceiveArea};

pub(super) struct Receives {
    area: ReceiveArea,
    /// What the link has no room for yet.
    queued: VecDeque<Op>,
    /// How many the link has.
    posted: usize,
}

impl Receives {
    /// One receive for each place.
    pub(super) fn new(area: ReceiveArea) -> Self {
        let mut receives = Receives { area, queued: VecDeque::new(), posted: 0 };
        (0..RECEIVES).for_each(|place| receives.queue(place as u32));
        receives
    }

    /// The memory behind them, of which parts serve the control block.
    #[inline]
    pub(super) fn area(&self) -> &ReceiveArea {
        &self.area
    }

    /// Queues a place's receive: its message was read.
    #[inline]
    pub(super) fn queue(&mut self, place: u32) {
        self.queued.push_back(self.area.receive(place as usize, Token::Receive(place).encode()));
    }

    #[inline]
    pub(super) fn post(&mut self, link: &mut Link) {
        if !self.queued.is_empty() {
            self.posted += link.post(&mut self.queued);
        }
    }

    /// The link has given one back.
    #[inline]
    pub(super) fn completed(&mut self) {
        self.posted -= 1;
    }

    /// Whether the link has none.
    pub(super) fn is_idle(&self) -> bool {
        self.posted == 0
    }

    pub(super) fn into_area(self) -> ReceiveArea {
        self.area
    }
}
