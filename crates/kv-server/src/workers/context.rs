//! What a worker's connections share: memory, reusable buffers, and counters.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fabric::link::Endpoint;
use fabric::{Error, Region, Rights, Slice};
use kv_proto::wire::Answer;

use crate::engine::persistence::{CachedReader, Persistence};
use crate::engine::{Engine, add};
use crate::workers::connection::{BatchAnswers, ValuePin};
use crate::workers::notify::Notifier;
use crate::workers::pool::Shared;
use crate::workers::receive_areas::{MAX_MESSAGE_BYTES, ReceiveAreas};
use crate::workers::send_buffers::{SendBuffer, SendBuffers};

pub(crate) struct WorkerContext {
    shared: Arc<Shared>,
    worker: usize,
    pub(crate) engine: Arc<Engine>,
    pub(crate) endpoint: Endpoint,
    /// The pool, registered for this worker alone: a shared region would have a shared reference count,
    /// contended at every value.
    pub(crate) pool: Region,
    /// The same, for clients on this host to read.
    pub(crate) readable_pool: Region,
    pub(crate) send_buffers: SendBuffers,
    pub(crate) receive_areas: ReceiveAreas,
    /// The message being parsed.
    pub(crate) message: Vec<u8>,
    /// The answers being encoded.
    bytes: Vec<u8>,
    /// Empty, to be reused.
    #[expect(clippy::vec_box, reason = "they are moved at every step of a batch")]
    pub(crate) spare_batch_answers: Vec<Box<BatchAnswers>>,
    pub(crate) spare: Vec<Vec<Slice>>,
    pub(crate) tally: Tally,
    /// The number of polled slot blocks.
    pub(crate) polled_slot_blocks: usize,
    /// Reads values that are not in memory but in the page cache, if the store has a disk.
    pub(crate) cached_reader: Option<CachedReader>,
    /// The number of outstanding requests to the disk.
    pub(crate) disk_requests: usize,
    /// The number of connections with in-place reads.
    pub(crate) with_in_place_reads: usize,
    /// Requests in flight are finished, new ones refused.
    pub(crate) draining: bool,
}

/// Counters since they were last published.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) batches: u64,
    pub(crate) requests: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) in_place_reads: u64,
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
            // No remote access.
            pool: endpoint.register(engine.pool(), Rights::NONE)?,
            readable_pool: Region::same_host(engine.pool()),
            send_buffers: SendBuffers::new(&endpoint)?,
            receive_areas: ReceiveAreas::default(),
            cached_reader: engine.persistence().and_then(Persistence::cached_reader),
            engine,
            endpoint,
            message: Vec::with_capacity(MAX_MESSAGE_BYTES),
            bytes: Vec::new(),
            spare_batch_answers: Vec::new(),
            spare: Vec::new(),
            tally: Tally::default(),
            polled_slot_blocks: 0,
            disk_requests: 0,
            with_in_place_reads: 0,
            draining: false,
        })
    }

    /// A notifier for a connection.
    pub(crate) fn notifier(&self, connection: u32) -> Notifier {
        Notifier { shared: self.shared.clone(), worker: self.worker, connection }
    }

    /// Recycled answers, or a new one.
    #[inline]
    pub(crate) fn batch_answers(&mut self) -> Box<BatchAnswers> {
        self.spare_batch_answers.pop().unwrap_or_else(|| Box::new(BatchAnswers::new()))
    }

    /// Encodes answers and copied bytes.
    #[inline]
    pub(crate) fn encode(&mut self, answers: &[Answer], copied: &[u8]) -> &[u8] {
        self.bytes.clear();
        answers.iter().for_each(|answer| self.bytes.extend(answer.to_bytes()));
        self.bytes.extend(copied);
        &self.bytes
    }

    /// Copies the encoded bytes into a send buffer.
    pub(crate) fn fill_send_buffer(&mut self) -> Option<SendBuffer> {
        self.send_buffers.write(&self.bytes)
    }

    /// Unpins the values of a reply.
    pub(crate) fn release(&mut self, mut holds: Vec<ValuePin>) {
        for hold in holds.drain(..) {
            if let ValuePin::Pin(pin) = hold {
                self.engine.index.unpin(pin);
            }
        }
        // The next one without a vector reuses this one.
        if let Some(batch_answers) = self.spare_batch_answers.last_mut() {
            batch_answers.reuse(holds);
        }
    }

    /// Recycles a batch that was sent directly, with nothing in flight.
    pub(crate) fn recycle_sent(&mut self, mut batch_answers: Box<BatchAnswers>) {
        let holds = batch_answers.take_holds();
        self.spare_batch_answers.push(batch_answers);
        self.release(holds);
    }

    /// Recycles a batch that was not sent.
    pub(crate) fn recycle(&mut self, mut batch_answers: Box<BatchAnswers>) {
        batch_answers.take_in_place_pins().for_each(|pin| self.engine.index.unpin(pin));
        self.release(batch_answers.take_holds());
        self.spare_batch_answers.push(batch_answers);
    }

    /// Adds the tally to the engine's counters.
    pub(crate) fn publish_tally(&mut self) {
        let Tally { batches, requests, bytes_in, bytes_out, in_place_reads } =
            std::mem::take(&mut self.tally);
        let counts = &self.engine.counts;
        let tallied: [(&AtomicU64, u64); 5] = [
            (&counts.batches, batches),
            (&counts.requests, requests),
            (&counts.bytes_in, bytes_in),
            (&counts.bytes_out, bytes_out),
            (&counts.in_place_reads, in_place_reads),
        ];
        tallied
            .into_iter()
            .filter(|(_, more)| *more > 0)
            .for_each(|(count, more)| add(count, more));
    }
}
