//! Values that a client reads in place on this host, where they lie. On its control block it writes up to which batch it
//! has taken the answers.
//!
//! A pinned read holds its values' pins until the client has taken the batch that it answered, or its link is taken apart,
//! which waits for a client that is in the middle of reading. The worker counts the connections that have any.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use fabric::link::Link;
use fabric::{Lane, Window};
use kv_proto::wire::ControlBlock;
use kv_store::Pin;

use super::draft::Draft;
use crate::engine::Engine;
use crate::workers::context::WorkerContext;
use crate::workers::receive_areas::ReceiveArea;

/// What a client has and has not given back, oldest first.
pub(crate) struct PinnedReads {
    engine: Arc<Engine>,
    reads: VecDeque<PinnedRead>,
    bytes: u64,
    /// Emptied, to be used again.
    spare: Vec<Vec<Pin>>,
}

struct PinnedRead {
    /// Of the request slot of the batch that it answers.
    sequence: u64,
    pins: Vec<Pin>,
    bytes: u64,
}

impl PinnedReads {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        PinnedReads { engine, reads: VecDeque::new(), bytes: 0, spare: Vec::new() }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// Whether there are so many that it is time to look which were given back.
    #[inline]
    pub(super) fn are_many(&self) -> bool {
        self.reads.len() >= OFTEN || self.bytes >= MAX_BYTES / 2
    }

    /// Whether no more may be pinned.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES
    }

    /// Takes over what a draft leaves in place.
    #[inline]
    pub(super) fn hold(&mut self, sequence: u64, draft: &mut Draft, context: &mut WorkerContext) {
        if draft.in_place.pins.is_empty() {
            return;
        }
        context.with_pinned_reads += usize::from(self.reads.is_empty());
        let spare = self.spare.pop().unwrap_or_default();
        let pins = std::mem::replace(&mut draft.in_place.pins, spare);
        let bytes = draft.in_place.bytes;
        self.reads.push_back(PinnedRead { sequence, pins, bytes });
        self.bytes += bytes;
    }

    /// Unpins what the client has finished reading.
    pub(super) fn release_taken(
        &mut self,
        link: &mut Link,
        receive_buffer: &Window,
        area: &ReceiveArea,
        context: &mut WorkerContext,
    ) {
        if !self.reads.is_empty()
            && link.peek(receive_buffer, ControlBlock::CONSUMED as u64, &area.taken())
        {
            // What the client read, it read before it wrote that.
            fence(Ordering::Acquire);
            self.unpin(area.read_taken());
            context.with_pinned_reads -= usize::from(self.reads.is_empty());
        }
    }

    /// The worker has nothing to do with them any more: they are released once the link is taken apart.
    pub(super) fn detach(self, context: &mut WorkerContext) -> Self {
        context.with_pinned_reads -= usize::from(!self.reads.is_empty());
        self
    }

    /// Unpins what answered batches up to this sequence.
    fn unpin(&mut self, taken: u64) {
        while self.reads.front().is_some_and(|read| read.sequence <= taken) {
            let Some(mut read) = self.reads.pop_front() else { return };
            self.bytes -= read.bytes;
            read.pins.drain(..).for_each(|pin| self.engine.store.unpin(pin));
            self.spare.push(read.pins);
        }
    }
}

impl Drop for PinnedReads {
    fn drop(&mut self) {
        self.unpin(u64::MAX);
    }
}

/// How many batches may be pinned before the control block is looked at: that costs as much as a short answer.
const OFTEN: usize = 8;
/// How many bytes one client may have at a time; the rest is written to it.
const MAX_BYTES: u64 = 8 << 20;
