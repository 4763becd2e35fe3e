//! The answers to one batch, while they are built.

use std::sync::Arc;

use fabric::{Slice, Window};
use kv_proto::wire::{Answer, BatchHead, SlotBlock};
use kv_store::Pin;

use super::batch_limits::BatchLimits;
use crate::engine::PinnedValue;

/// Answers, and the payload after them.
pub(crate) struct BatchAnswers {
    pub(super) head: BatchHead,
    pub(super) limits: BatchLimits,
    pub(super) answers: Vec<Answer>,
    /// Short values and listings, one after the other.
    pub(super) copied: Vec<u8>,
    /// The payload after the answers, in order.
    pub(super) payload: Vec<Payload>,
    /// Writes into the client's regions.
    pub(super) region_writes: Vec<(Window, u64, Vec<Slice>)>,
    /// Values that must stay pinned until all writes are complete.
    pub(super) holds: Vec<ValuePin>,
    pub(super) in_place: InPlace,
    /// The slot sequence to set when all writes are complete, instead of immediate data with each write.
    slot_sequence: Option<u64>,
    /// The number of missing answers.
    pub(super) missing: usize,
}

/// Values that the client reads in place.
#[derive(Default)]
pub(super) struct InPlace {
    /// Whether it may read in place.
    pub(super) allowed: bool,
    pub(super) pins: Vec<Pin>,
    /// Their total length.
    pub(super) bytes: u64,
}

/// A word before a batch's answers, and the value to set: the slot sequence of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CompletionFlag {
    pub(super) at: u64,
    pub(super) slot_sequence: u64,
}

/// A part of the payload after the answers.
pub(super) enum Payload {
    /// The next bytes of `copied`: their number.
    Copied(usize),
    /// A slice of the pool.
    Pool(Slice),
}

/// Keeps a value pinned.
pub(crate) enum ValuePin {
    Pin(Pin),
    Value(#[expect(dead_code, reason = "it is only dropped")] Arc<PinnedValue>),
}

impl BatchAnswers {
    pub(crate) fn new() -> Self {
        BatchAnswers {
            head: BatchHead { in_place: false, count: 0, tag: 0, at: 0, capacity: 0 },
            answers: Vec::new(),
            copied: Vec::new(),
            payload: Vec::new(),
            region_writes: Vec::new(),
            holds: Vec::new(),
            in_place: InPlace::default(),
            limits: BatchLimits::default(),
            slot_sequence: None,
            missing: 0,
        }
    }

    /// Resets it for a batch; keeps its allocations.
    pub(super) fn begin(
        &mut self,
        head: BatchHead,
        slot_sequence: Option<u64>,
        reads_in_place: bool,
    ) {
        (self.head, self.slot_sequence) = (head, slot_sequence);
        self.limits = BatchLimits::new(&head);
        self.answers.clear();
        self.copied.clear();
        self.payload.clear();
        self.region_writes.clear();
        debug_assert!(self.holds.is_empty() && self.in_place.pins.is_empty());
        (self.in_place.allowed, self.in_place.bytes) = (reads_in_place, 0);
        self.missing = 0;
    }

    /// The flag to set when all writes are complete. That it fits before the answers was checked with the
    /// request.
    #[inline]
    pub(super) fn completion_flag(&self) -> Option<CompletionFlag> {
        let at = self.head.at.wrapping_sub(SlotBlock::FLAG as u64);
        self.slot_sequence.map(|slot_sequence| CompletionFlag { at, slot_sequence })
    }

    /// Whether it has only answers and copied bytes.
    #[inline]
    pub(super) fn is_copied(&self) -> bool {
        self.limits.slices() == 0 && self.region_writes.is_empty()
    }

    /// The length of the answers and the copied bytes so far.
    #[inline]
    pub(super) fn encoded_len(&self) -> usize {
        self.answers.len() * Answer::LENGTH + self.copied.len()
    }

    pub(super) fn put_copied(&mut self, length: usize) {
        match self.payload.last_mut() {
            Some(Payload::Copied(before)) => *before += length,
            _ => self.payload.push(Payload::Copied(length)),
        }
    }

    /// Takes the holds.
    pub(crate) fn take_holds(&mut self) -> Vec<ValuePin> {
        std::mem::take(&mut self.holds)
    }

    /// Takes the pins of values that would have been read in place.
    pub(crate) fn take_in_place_pins(&mut self) -> impl Iterator<Item = Pin> {
        self.in_place.pins.drain(..)
    }

    /// Reuses an empty vector for holds, if it has none.
    pub(crate) fn reuse(&mut self, empty: Vec<ValuePin>) {
        if self.holds.capacity() == 0 {
            self.holds = empty;
        }
    }
}
