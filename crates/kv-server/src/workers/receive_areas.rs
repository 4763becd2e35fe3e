//! A worker's memory for received messages: an area per connection, registered many at a time.

use fabric::link::Endpoint;
use fabric::{Error, Memory, Op, Pages, Region, Rights, Slice};
use kv_proto::wire::SlotBlock;

/// Registered memory for clients' messages and slot blocks: an area per connection.
#[derive(Default)]
pub(crate) struct ReceiveAreas {
    free: Vec<ReceiveArea>,
}

/// The area of one connection: a buffer for each receive and for each request slot, and words of its slot block.
pub(crate) struct ReceiveArea {
    region: Region,
    offset: usize,
}

impl ReceiveAreas {
    pub(crate) fn take(&mut self, endpoint: &Endpoint) -> Result<ReceiveArea, Error> {
        if self.free.is_empty() {
            let memory = Memory::allocate(AREA_BYTES * AREAS, Pages::Plain)?;
            let region = endpoint.register(&memory, Rights::NONE)?;
            let area = |at| ReceiveArea { region: region.clone(), offset: at * AREA_BYTES };
            self.free.extend((0..AREAS).map(area).inspect(ReceiveArea::write_constants));
        }
        Ok(self.free.pop().expect("areas were just added"))
    }

    pub(crate) fn release(&mut self, area: ReceiveArea) {
        self.free.push(area);
    }
}

impl ReceiveArea {
    /// A receive into one of its buffers.
    pub(crate) fn receive(&self, at: usize, op_id: u64) -> Op {
        let offset = self.offset + at * MAX_MESSAGE_BYTES;
        Op::receive(op_id, self.region.slice(offset..offset + MAX_MESSAGE_BYTES))
    }

    /// The buffer for the message of a request slot.
    pub(crate) fn announced(&self, slot_sequence: u64, length: usize) -> Slice {
        let offset = self.offset + announced(slot_sequence) * MAX_MESSAGE_BYTES;
        self.region.slice(offset..offset + length)
    }

    pub(crate) fn read_announced(&self, slot_sequence: u64, message: &mut [u8]) {
        self.read(announced(slot_sequence), message);
    }

    /// The buffer for the client's cache line of its slot block.
    pub(crate) fn line(&self) -> Slice {
        let offset = self.offset + LINE_AT;
        self.region.slice(offset..offset + SlotBlock::LINE)
    }

    pub(crate) fn read_line(&self, line: &mut [u8; SlotBlock::LINE]) {
        self.region.memory().read(self.offset + LINE_AT, line);
    }

    /// A constant word to be written from: 0 or 1.
    pub(crate) fn word(&self, word: u64) -> Slice {
        let offset = self.offset + WORDS_AT + 8 * word as usize;
        self.region.slice(offset..offset + 8)
    }

    /// The words that notify a client whether its slot block is polled.
    fn write_constants(&self) {
        self.region.memory().write(self.offset + WORDS_AT, &0_u64.to_le_bytes());
        self.region.memory().write(self.offset + WORDS_AT + 8, &SlotBlock::SET.to_le_bytes());
    }

    pub(crate) fn read(&self, at: usize, message: &mut [u8]) {
        self.region.memory().read(self.offset + at * MAX_MESSAGE_BYTES, message);
    }
}

/// The index of the buffer for the message of a request slot.
#[inline]
fn announced(slot_sequence: u64) -> usize {
    RECEIVES + (slot_sequence % SlotBlock::SLOTS as u64) as usize
}

/// The longest message of a client.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// Receives per connection: further messages wait at the link.
pub(crate) const RECEIVES: usize = 8;
/// Buffers for receives and request slots, a slot block's line, two words.
const AREA_BYTES: usize = LINE_AT + 4096;
const LINE_AT: usize = MAX_MESSAGE_BYTES * (RECEIVES + SlotBlock::SLOTS);
const WORDS_AT: usize = LINE_AT + 64;
/// Areas per allocation.
const AREAS: usize = 16;
