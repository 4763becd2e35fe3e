//! Values that a client reads in place on this host: it reads them where they lie, and says on its control block when it has.
//!
//! A pinned read holds its value's pin until the client has taken the batch it answered, or its link is taken apart,
//! which waits for a client that is in the middle of reading.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use fabric::Lane;
use kv_proto::wire::ControlBlock;
use kv_store::Pin;

use super::Connection;
use super::draft::Draft;
use crate::engine::Engine;
use crate::workers::context::WorkerContext;

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

    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    fn take_back(&mut self, taken: u64) {
        while self.reads.front().is_some_and(|pinned_read| pinned_read.sequence <= taken) {
            let Some(mut pinned_read) = self.reads.pop_front() else { return };
            self.bytes -= pinned_read.bytes;
            pinned_read.pins.drain(..).for_each(|pin| self.engine.store.unpin(pin));
            self.spare.push(pinned_read.pins);
        }
    }
}

impl Drop for PinnedReads {
    fn drop(&mut self) {
        self.take_back(u64::MAX);
    }
}

impl Connection {
    /// Whether more may be pinned. Now and then this looks at what was given back.
    pub(super) fn may_read_in_place(&mut self, context: &mut WorkerContext) -> bool {
        if self.pinned_reads.reads.len() >= OFTEN || self.pinned_reads.bytes >= MAX / 2 {
            self.reclaim(context);
        }
        self.pinned_reads.bytes < MAX
    }

    /// The pins move here; what they came in is given back empty.
    pub(super) fn hold_reads(
        &mut self,
        sequence: u64,
        draft: &mut Draft,
        context: &mut WorkerContext,
    ) {
        if draft.pinned_reads.is_empty() {
            return;
        }
        let bytes = draft.in_place_bytes;
        context.with_pinned_reads += usize::from(self.pinned_reads.reads.is_empty());
        let room = self.pinned_reads.spare.pop().unwrap_or_default();
        let pins = std::mem::replace(&mut draft.pinned_reads, room);
        self.pinned_reads.reads.push_back(PinnedRead { sequence, pins, bytes });
        self.pinned_reads.bytes += bytes;
    }

    /// Unpins what the client has finished reading.
    pub(super) fn reclaim(&mut self, context: &mut WorkerContext) {
        if self.pinned_reads.reads.is_empty() {
            return;
        }
        let area = self.receives.area();
        if let Some(client) = self.peer.client()
            && self.link.peek(client.receive_buffer(), ControlBlock::TAKEN as u64, &area.taken())
        {
            // What the client read, it read before it said so.
            fence(Ordering::Acquire);
            self.pinned_reads.take_back(area.read_taken());
            context.with_pinned_reads -= usize::from(self.pinned_reads.reads.is_empty());
        }
    }

    /// What is pinned still, to be given up once the link is taken apart.
    pub(super) fn take_pinned_reads(&mut self, context: &mut WorkerContext) -> PinnedReads {
        context.with_pinned_reads -= usize::from(!self.pinned_reads.reads.is_empty());
        std::mem::replace(&mut self.pinned_reads, PinnedReads::new(context.engine.clone()))
    }
}

/// How many batches may be pinned before the control block is looked at: that costs as much as a short answer.
const OFTEN: usize = 8;
/// How many bytes one client may have at a time; the rest is written to it.
const MAX: u64 = 8 << 20;
