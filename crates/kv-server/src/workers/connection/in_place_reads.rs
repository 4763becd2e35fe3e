//! Values that a client on this host reads in place. In its slot block it publishes up to which batch it
//! has consumed the answers.
//!
//! An in-place read keeps its values pinned until the client has consumed its batch, or until its link is destroyed,
//! which waits for a client that is in the middle of reading. The worker counts the connections with in-place reads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use fabric::link::Link;
use fabric::{Lane, MappedInto, Window};
use kv_proto::wire::SlotBlock;
use kv_store::Pin;

use super::batch_answers::BatchAnswers;
use crate::engine::Engine;
use crate::workers::context::WorkerContext;

/// The in-place reads of a client, in the order of their replies.
pub(crate) struct InPlaceReads {
    engine: Arc<Engine>,
    reads: VecDeque<InPlaceRead>,
    bytes: u64,
    /// Empty vectors, to be reused.
    spare: Vec<Vec<Pin>>,
}

struct InPlaceRead {
    /// Of its batch.
    slot_sequence: u64,
    pins: Vec<Pin>,
    bytes: u64,
}

impl InPlaceReads {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        InPlaceReads { engine, reads: VecDeque::new(), bytes: 0, spare: Vec::new() }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// Whether there are so many that the client's progress should be checked.
    #[inline]
    pub(super) fn are_many(&self) -> bool {
        self.reads.len() >= CHECK_READS || self.bytes >= MAX_BYTES / 2
    }

    /// Whether the limit is reached.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES
    }

    /// Takes the pins of values that the answers leave in place.
    #[inline]
    pub(super) fn add(
        &mut self,
        slot_sequence: u64,
        batch_answers: &mut BatchAnswers,
        context: &mut WorkerContext,
    ) {
        if batch_answers.in_place.pins.is_empty() {
            return;
        }
        context.with_in_place_reads += usize::from(self.reads.is_empty());
        let spare = self.spare.pop().unwrap_or_default();
        let pins = std::mem::replace(&mut batch_answers.in_place.pins, spare);
        let bytes = batch_answers.in_place.bytes;
        self.reads.push_back(InPlaceRead { slot_sequence, pins, bytes });
        self.bytes += bytes;
    }

    /// Unpins what the client has finished reading.
    pub(super) fn release_consumed(
        &mut self,
        link: &mut Link,
        client_buffer: &Window,
        context: &mut WorkerContext,
    ) {
        if !self.reads.is_empty()
            && let mut consumed = AlignedWord([0; 8])
            && link.read_mapped(
                client_buffer,
                SlotBlock::CONSUMED as u64,
                MappedInto::Bytes(&mut consumed.0),
            )
        {
            // The client's reads happen before its write of this word.
            fence(Ordering::Acquire);
            self.unpin(u64::from_le_bytes(consumed.0));
            context.with_in_place_reads -= usize::from(self.reads.is_empty());
        }
    }

    /// Detaches them from the worker: they are released when the link is destroyed.
    pub(super) fn detach(self, context: &mut WorkerContext) -> Self {
        context.with_in_place_reads -= usize::from(!self.reads.is_empty());
        self
    }

    /// Unpins the reads of batches up to this slot sequence.
    fn unpin(&mut self, consumed: u64) {
        while self.reads.front().is_some_and(|read| read.slot_sequence <= consumed) {
            let Some(mut read) = self.reads.pop_front() else { return };
            self.bytes -= read.bytes;
            read.pins.drain(..).for_each(|pin| self.engine.index.unpin(pin));
            self.spare.push(read.pins);
        }
    }
}

/// Aligned, so that it is read whole.
#[repr(align(8))]
struct AlignedWord([u8; 8]);

impl Drop for InPlaceReads {
    fn drop(&mut self) {
        self.unpin(u64::MAX);
    }
}

/// In-place reads before the client's progress is checked, which costs as much as a short answer.
const CHECK_READS: usize = 8;
/// Bytes that one client may have pinned; further values are written to it.
const MAX_BYTES: u64 = 8 << 20;
