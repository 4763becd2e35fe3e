//! Memory of a worker's that messages are received into: an area for each connection, registered many at a time.

use fabric::link::Endpoint;
use fabric::{Error, Memory, Op, Pages, Region, Rights, Slice};
use kv_proto::wire::ControlBlock;

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
        self.region.memory().write(self.offset + WORDS_AT + 8, &ControlBlock::SET.to_le_bytes());
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
