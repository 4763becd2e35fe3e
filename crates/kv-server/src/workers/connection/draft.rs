//! The answers to one batch, while they are made.

use std::sync::Arc;

use fabric::{Slice, Window};
use kv_proto::wire::{Answer, BatchHead, ControlBlock};
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
    /// Whether values may be read in place, those that are, and how many bytes they have.
    pub(super) in_place: bool,
    pub(super) pinned_reads: Vec<Pin>,
    pub(super) in_place_bytes: u64,
    /// The sequence to set when all of it is placed, instead of immediate data with each write.
    completion_flag: Option<u64>,
    /// How many requests wait for bytes from the client.
    pub(super) missing: usize,
    /// How much room the requests have asked for so far, and in how many pieces they are answered.
    pub(super) claimed: u64,
    pub(super) pieces: usize,
    /// How many bytes go elsewhere or come from there, and of how many a checksum is made.
    pub(super) moved: u64,
    pub(super) summed: u64,
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
            head: BatchHead { in_place: false, count: 0, tag: 0, at: 0, room: 0 },
            answers: Vec::new(),
            copied: Vec::new(),
            behind: Vec::new(),
            apart: Vec::new(),
            holds: Vec::new(),
            in_place: false,
            pinned_reads: Vec::new(),
            in_place_bytes: 0,
            completion_flag: None,
            missing: 0,
            claimed: 0,
            pieces: 0,
            moved: 0,
            summed: 0,
        }
    }

    /// An empty one for this batch, with the room that an old one has.
    pub(super) fn begin(&mut self, head: BatchHead, completion_flag: Option<u64>) {
        (self.head, self.completion_flag) = (head, completion_flag);
        self.answers.clear();
        self.copied.clear();
        self.behind.clear();
        self.apart.clear();
        debug_assert!(self.holds.is_empty() && self.pinned_reads.is_empty());
        self.in_place_bytes = 0;
        self.missing = 0;
        self.claimed = u64::from(head.count) * Answer::LENGTH as u64;
        self.pieces = 0;
        (self.moved, self.summed) = (0, 0);
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
        self.pieces == 0 && self.apart.is_empty()
    }

    /// Whether so many bytes may be fetched for this batch too; the first of a batch may.
    pub(super) fn moves(&mut self, length: u64) -> bool {
        let fits = self.moved == 0 || self.moved.saturating_add(length) <= MOVED;
        self.moved = self.moved.saturating_add(if fits { length } else { 0 });
        fits
    }

    /// How many of so many bytes may be answered now: one batch must not keep the worker from others for long. Who
    /// gets less asks again; the first of a batch gets all.
    pub(super) fn allow(&mut self, wanted: u64, apart: bool, checksum: bool) -> u64 {
        let mut allowed = wanted;
        if apart {
            allowed = allowed.min(MOVED.saturating_sub(self.moved));
            self.moved += allowed;
        }
        if checksum {
            allowed = if self.summed == 0 {
                allowed
            } else {
                allowed.min(SUMMED.saturating_sub(self.summed))
            };
            self.summed += allowed;
        }
        allowed
    }

    /// Takes room behind the answers; `false` if the client has not given so much.
    #[inline]
    pub(super) fn claim(&mut self, length: u64) -> bool {
        self.claimed = self.claimed.saturating_add(length);
        self.claimed <= self.head.room
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

    /// What would have been pinned, out of here.
    pub(crate) fn take_pinned_reads(&mut self) -> impl Iterator<Item = Pin> {
        self.pinned_reads.drain(..)
    }

    /// Room for holds, if it has none.
    pub(crate) fn reuse(&mut self, empty: Vec<Hold>) {
        if self.holds.capacity() == 0 {
            self.holds = empty;
        }
    }
}

/// How many bytes of values one batch may name.
pub(super) const MOVED: u64 = 1 << 30;
/// How many bytes a batch makes checksums of, if it is more than one value.
const SUMMED: u64 = 64 << 20;
