//! The answers to one batch, while they are made.

use std::sync::Arc;

use fabric::{Slice, Window};
use kv_proto::wire::{Answer, BatchHead};
use kv_store::Pin;

use crate::engine::Held;

/// Answers, and what stands behind them.
pub(crate) struct Draft {
    pub(super) head: BatchHead,
    pub(super) answers: Vec<Answer>,
    /// Short values and listings, one after the other.
    pub(super) copied: Vec<u8>,
    /// What stands behind the answers, in order.
    pub(super) behind: Vec<Behind>,
    /// What goes elsewhere.
    pub(super) apart: Vec<(Window, u64, Vec<Slice>)>,
    /// What must not move until all of it is written.
    pub(super) holds: Vec<Hold>,
    /// Whether values may be lent, those that are, and how many bytes they have.
    pub(super) lends: bool,
    pub(super) loans: Vec<Pin>,
    pub(super) lent: u64,
    /// What to ring when all of it is placed, instead of a number with each write.
    pub(super) bell: Option<u64>,
    /// How many requests wait for bytes from the client.
    pub(super) missing: usize,
    /// How much room the requests have asked for so far, and in how many pieces they are answered.
    pub(super) claimed: u64,
    pub(super) pieces: usize,
}

/// A part of what stands behind the answers.
pub(super) enum Behind {
    /// So many of the bytes copied.
    Copied(usize),
    /// A part of the pool.
    Pool(Slice),
}

/// Memory that stays as it is while this lives.
pub(crate) enum Hold {
    Pin(Pin),
    Cursor(#[expect(dead_code, reason = "it is held, not looked at")] Arc<Held>),
}

impl Draft {
    pub(crate) fn new() -> Self {
        Draft {
            head: BatchHead { borrows: false, count: 0, tag: 0, at: 0, room: 0 },
            answers: Vec::new(),
            copied: Vec::new(),
            behind: Vec::new(),
            apart: Vec::new(),
            holds: Vec::new(),
            lends: false,
            loans: Vec::new(),
            lent: 0,
            bell: None,
            missing: 0,
            claimed: 0,
            pieces: 0,
        }
    }

    /// An empty one for this batch, with the room that an old one has.
    pub(super) fn begin(&mut self, head: BatchHead) {
        self.head = head;
        self.answers.clear();
        self.copied.clear();
        self.behind.clear();
        self.apart.clear();
        debug_assert!(self.holds.is_empty() && self.loans.is_empty());
        self.lent = 0;
        self.missing = 0;
        self.claimed = u64::from(head.count) * Answer::LENGTH as u64;
        self.pieces = 0;
    }

    /// Takes room behind the answers; `false` if the client has not given so much.
    #[inline]
    pub(super) fn claim(&mut self, length: u64) -> bool {
        self.claimed = self.claimed.saturating_add(length);
        self.claimed <= self.head.room
    }

    pub(super) fn put_copied(&mut self, length: usize) {
        match self.behind.last_mut() {
            Some(Behind::Copied(before)) => *before += length,
            _ => self.behind.push(Behind::Copied(length)),
        }
    }

    /// What must not move, out of here.
    pub(crate) fn take_holds(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.holds)
    }

    /// What would have been lent, out of here.
    pub(crate) fn take_loans(&mut self) -> impl Iterator<Item = Pin> {
        self.loans.drain(..)
    }

    /// Room for holds, if it has none.
    pub(crate) fn reuse(&mut self, empty: Vec<Hold>) {
        if self.holds.capacity() == 0 {
            self.holds = empty;
        }
    }
}
