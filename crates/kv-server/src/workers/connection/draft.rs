//! The answers to one batch, while they are made.

use std::sync::Arc;

use fabric::{Slice, Window};
use kv_proto::wire::{Answer, BatchHead, ControlBlock};
use kv_store::Pin;

use super::batch_limits::BatchLimits;
use crate::engine::Held;

/// Answers, and what stands behind them.
pub(crate) struct Draft {
    pub(super) head: BatchHead,
    pub(super) limits: BatchLimits,
    pub(super) answers: Vec<Answer>,
    /// Short values and listings, one after the other.
    pub(super) copied: Vec<u8>,
    /// What stands behind the answers, in order.
    pub(super) behind: Vec<Behind>,
    /// What goes elsewhere.
    pub(super) apart: Vec<(Window, u64, Vec<Slice>)>,
    /// What must not move until all of it is written.
    pub(super) holds: Vec<Hold>,
    pub(super) in_place: InPlace,
    /// The sequence to set when all of it is placed, instead of immediate data with each write.
    completion_flag: Option<u64>,
    /// How many answers are missing.
    pub(super) missing: usize,
}

/// Values that the client reads in place.
#[derive(Default)]
pub(super) struct InPlace {
    /// Whether it may.
    pub(super) allowed: bool,
    pub(super) pins: Vec<Pin>,
    /// How many bytes they have.
    pub(super) bytes: u64,
}

/// A word before a batch's answers, and what it is set to: the sequence of the batch's request slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CompletionFlag {
    pub(super) at: u64,
    pub(super) sequence: u64,
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
    Held(#[expect(dead_code, reason = "it is held, not looked at")] Arc<Held>),
}

impl Draft {
    pub(crate) fn new() -> Self {
        Draft {
            head: BatchHead { in_place: false, count: 0, tag: 0, at: 0, capacity: 0 },
            answers: Vec::new(),
            copied: Vec::new(),
            behind: Vec::new(),
            apart: Vec::new(),
            holds: Vec::new(),
            in_place: InPlace::default(),
            limits: BatchLimits::default(),
            completion_flag: None,
            missing: 0,
        }
    }

    /// An empty one for this batch, with the room that an old one has.
    pub(super) fn begin(
        &mut self,
        head: BatchHead,
        completion_flag: Option<u64>,
        reads_in_place: bool,
    ) {
        (self.head, self.completion_flag) = (head, completion_flag);
        self.limits = BatchLimits::new(&head);
        self.answers.clear();
        self.copied.clear();
        self.behind.clear();
        self.apart.clear();
        debug_assert!(self.holds.is_empty() && self.in_place.pins.is_empty());
        (self.in_place.allowed, self.in_place.bytes) = (reads_in_place, 0);
        self.missing = 0;
    }

    /// The flag to set when all of it is placed. There is room for it before the answers: that was checked when it was
    /// asked for.
    #[inline]
    pub(super) fn completion_flag(&self) -> Option<CompletionFlag> {
        let at = self.head.at.wrapping_sub(ControlBlock::FLAG as u64);
        self.completion_flag.map(|sequence| CompletionFlag { at, sequence })
    }

    /// Whether all of it is answers and copied bytes.
    #[inline]
    pub(super) fn is_copied(&self) -> bool {
        self.limits.pieces() == 0 && self.apart.is_empty()
    }

    /// How many bytes the answers and what is copied behind them have so far.
    #[inline]
    pub(super) fn rendered(&self) -> usize {
        self.answers.len() * Answer::LENGTH + self.copied.len()
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

    /// What would have been read in place, out of here.
    pub(crate) fn take_pinned_reads(&mut self) -> impl Iterator<Item = Pin> {
        self.in_place.pins.drain(..)
    }

    /// Room for holds, if it has none.
    pub(crate) fn reuse(&mut self, empty: Vec<Hold>) {
        if self.holds.capacity() == 0 {
            self.holds = empty;
        }
    }
}
