//! What a worker's connections share: memory, buffers that are used again, and counts.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fabric::link::Endpoint;
use fabric::{Error, Region, Rights, Slice};
use kv_proto::wire::Answer;

use crate::engine::{Engine, add};
use crate::workers::connection::{Draft, Hold};
use crate::workers::notify::Notifier;
use crate::workers::pool::Shared;
use crate::workers::receive_areas::{MESSAGE, ReceiveAreas};
use crate::workers::send_buffers::{SendBuffers, Slot};

pub(crate) struct WorkerContext {
    shared: Arc<Shared>,
    worker: usize,
    pub(crate) engine: Arc<Engine>,
    pub(crate) endpoint: Endpoint,
    /// The pool, registered for this worker alone: workers that share one would share its count of users too,
    /// and wait for each other at every value.
    pub(crate) pool: Region,
    /// The same, for clients on this host to read.
    pub(crate) readable_pool: Region,
    pub(crate) send_buffers: SendBuffers,
    pub(crate) receive_areas: ReceiveAreas,
    /// The message being read.
    pub(crate) message: Vec<u8>,
    /// The answers being written.
    bytes: Vec<u8>,
    /// Emptied, to be used again.
    pub(crate) drafts: Vec<Draft>,
    pub(crate) spare: Vec<Vec<Slice>>,
    pub(crate) tally: Tally,
    /// How many control blocks are watched.
    pub(crate) watched: usize,
    /// How many requests to the disk are outstanding.
    pub(crate) disk_requests: usize,
    /// How many connections have pinned reads.
    pub(crate) with_pinned_reads: usize,
    /// The store is shutting down: what is in flight is finished, nothing is begun.
    pub(crate) closing: bool,
}

/// What was done since it was last published.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) batches: u64,
    pub(crate) requests: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) zero_copy_reads: u64,
}

impl WorkerContext {
    pub(crate) fn new(
        engine: Arc<Engine>,
        endpoint: Endpoint,
        shared: Arc<Shared>,
        worker: usize,
    ) -> Result<Self, Error> {
        Ok(WorkerContext {
            shared,
            worker,
            // Nobody but us reads or writes it.
            pool: endpoint.register(engine.pool(), Rights::NONE)?,
            readable_pool: Region::same_host(engine.pool()),
            send_buffers: SendBuffers::new(&endpoint)?,
            receive_areas: ReceiveAreas::default(),
            engine,
            endpoint,
            message: Vec::with_capacity(MESSAGE),
            bytes: Vec::new(),
            drafts: Vec::new(),
            spare: Vec::new(),
            tally: Tally::default(),
            watched: 0,
            disk_requests: 0,
            with_pinned_reads: 0,
            closing: false,
        })
    }

    /// Notifies a connection of what came back for it.
    pub(crate) fn notifier(&self, connection: u32) -> Notifier {
        Notifier { shared: self.shared.clone(), worker: self.worker, connection }
    }

    /// A draft, to be begun.
    #[inline]
    pub(crate) fn draft(&mut self) -> Draft {
        self.drafts.pop().unwrap_or_else(Draft::new)
    }

    /// Answers and what is copied behind them, as bytes.
    #[inline]
    pub(crate) fn render(&mut self, answers: &[Answer], copied: &[u8]) -> &[u8] {
        self.bytes.clear();
        answers.iter().for_each(|answer| self.bytes.extend(answer.to_bytes()));
        self.bytes.extend(copied);
        &self.bytes
    }

    /// Copies what was rendered into a slot.
    pub(crate) fn fill_slot(&mut self) -> Option<Slot> {
        self.send_buffers.write(&self.bytes)
    }

    /// Unpins what answers were written from.
    pub(crate) fn release(&mut self, mut holds: Vec<Hold>) {
        for hold in holds.drain(..) {
            if let Hold::Pin(pin) = hold {
                self.engine.store.unpin(pin);
            }
        }
        // The next draft that has none uses the vector.
        if let Some(draft) = self.drafts.last_mut() {
            draft.reuse(holds);
        }
    }

    /// Recycles a draft that was sent, with nothing in flight.
    pub(crate) fn settle(&mut self, mut draft: Draft) {
        let holds = draft.take_holds();
        self.drafts.push(draft);
        self.release(holds);
    }

    /// Recycles a draft that is not sent.
    pub(crate) fn recycle(&mut self, mut draft: Draft) {
        draft.take_pinned_reads().for_each(|pin| self.engine.store.unpin(pin));
        self.release(draft.take_holds());
        self.drafts.push(draft);
    }

    /// Adds the tally to the engine's counts.
    pub(crate) fn publish_tally(&mut self) {
        let Tally { batches, requests, bytes_in, bytes_out, zero_copy_reads } =
            std::mem::take(&mut self.tally);
        let counts = &self.engine.counts;
        let tallied: [(&AtomicU64, u64); 5] = [
            (&counts.batches, batches),
            (&counts.requests, requests),
            (&counts.bytes_in, bytes_in),
            (&counts.bytes_out, bytes_out),
            (&counts.zero_copy_reads, zero_copy_reads),
        ];
        tallied
            .into_iter()
            .filter(|(_, more)| *more > 0)
            .for_each(|(count, more)| add(count, more));
    }
}
