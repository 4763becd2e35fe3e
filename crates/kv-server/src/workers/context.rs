//! What a worker's connections share: memory, buffers that are used again, and counts.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fabric::link::Endpoint;
use fabric::{Error, Memory, Op, Pages, Region, Rights, Slice};
use kv_proto::wire::{Answer, ControlBlock};

use crate::engine::{Engine, add};
use crate::workers::connection::{Draft, Hold};
use crate::workers::notify::Notifier;
use crate::workers::pool::Shared;
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
            readable_pool: Region::near(engine.pool()),
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

    /// Takes back a draft that was sent, with nothing in flight.
    pub(crate) fn settle(&mut self, mut draft: Draft) {
        let holds = draft.take_holds();
        self.drafts.push(draft);
        self.release(holds);
    }

    /// Takes back a draft that is not sent.
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

/// Registered memory that clients' messages and control blocks are read into: an area for each connection.
#[derive(Default)]
pub(crate) struct ReceiveAreas {
    free: Vec<ReceiveArea>,
}

/// One connection's: a place for each receive and for each request slot, and the words of its control block.
pub(crate) struct ReceiveArea {
    region: Region,
    offset: usize,
}

impl ReceiveAreas {
    pub(crate) fn take(&mut self, endpoint: &Endpoint) -> Result<ReceiveArea, Error> {
        if self.free.is_empty() {
            let memory = Memory::allocate(AREA * AREAS, Pages::Plain)?;
            let region = endpoint.register(&memory, Rights::NONE)?;
            let area = |at| ReceiveArea { region: region.clone(), offset: at * AREA };
            self.free.extend((0..AREAS).map(area).inspect(ReceiveArea::write_constants));
        }
        Ok(self.free.pop().expect("there are some now"))
    }

    pub(crate) fn give_back(&mut self, area: ReceiveArea) {
        self.free.push(area);
    }
}

impl ReceiveArea {
    /// A receive into one of its places.
    pub(crate) fn receive(&self, at: usize, token: u64) -> Op {
        let offset = self.offset + at * MESSAGE;
        Op::receive(token, self.region.slice(offset..offset + MESSAGE))
    }

    /// Where the message that a request slot announces is read to.
    pub(crate) fn announced(&self, sequence: u64, length: usize) -> Slice {
        let offset = self.offset + announced(sequence) * MESSAGE;
        self.region.slice(offset..offset + length)
    }

    pub(crate) fn read_announced(&self, sequence: u64, message: &mut [u8]) {
        self.read(announced(sequence), message);
    }

    /// Where a client's cache line of its control block is read to.
    pub(crate) fn line(&self) -> Slice {
        let offset = self.offset + LINE_AT;
        self.region.slice(offset..offset + ControlBlock::LINE)
    }

    pub(crate) fn read_line(&self, line: &mut [u8; ControlBlock::LINE]) {
        self.region.memory().read(self.offset + LINE_AT, line);
    }

    /// A word to be written: 0 or 1.
    pub(crate) fn word(&self, word: u64) -> Slice {
        let offset = self.offset + WORDS_AT + 8 * word as usize;
        self.region.slice(offset..offset + 8)
    }

    /// Where a client's word of what it has taken is read to.
    pub(crate) fn taken(&self) -> Slice {
        let offset = self.offset + TAKEN_AT;
        self.region.slice(offset..offset + 8)
    }

    pub(crate) fn read_taken(&self) -> u64 {
        self.region.memory().load(self.offset + TAKEN_AT)
    }

    /// The words that are written from here to tell a client whether its control block is watched.
    fn write_constants(&self) {
        self.region.memory().write(self.offset + WORDS_AT, &0_u64.to_le_bytes());
        self.region.memory().write(self.offset + WORDS_AT + 8, &ControlBlock::YES.to_le_bytes());
    }

    pub(crate) fn read(&self, at: usize, message: &mut [u8]) {
        self.region.memory().read(self.offset + at * MESSAGE, message);
    }
}

/// The place of the message that a request slot announces.
#[inline]
fn announced(sequence: u64) -> usize {
    RECEIVES + (sequence % ControlBlock::SLOTS as u64) as usize
}

/// The longest message of a client's.
pub(crate) const MESSAGE: usize = 16 << 10;
/// How many receives each connection has posted: more wait at the link.
pub(crate) const RECEIVES: usize = 8;
/// Places for receives and for batches that were announced in a control block, a control block's line, three words.
const AREA: usize = LINE_AT + 4096;
const LINE_AT: usize = MESSAGE * (RECEIVES + ControlBlock::SLOTS);
const WORDS_AT: usize = LINE_AT + 64;
const TAKEN_AT: usize = WORDS_AT + 64;
/// How many areas are allocated at once.
const AREAS: usize = 16;
