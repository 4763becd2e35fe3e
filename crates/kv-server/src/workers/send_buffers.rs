//! Memory of a worker's that answers are sent from: slots of a few sizes, registered once.

use fabric::link::Endpoint;
use fabric::{Error, Memory, Pages, Region, Rights, Slice};

/// Slots of all sizes. There are as many as connections use: each connection has a limit of its own, so that none
/// takes another's.
pub(crate) struct SendBuffers {
    endpoint: Endpoint,
    regions: Vec<Region>,
    free: [Vec<Slot>; SIZES.len()],
}

/// A slot, to be given back.
#[derive(Debug)]
pub(crate) struct Slot {
    size: u8,
    region: u16,
    offset: u32,
}

impl SendBuffers {
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, Error> {
        let endpoint = endpoint.clone();
        let mut send_buffers =
            SendBuffers { endpoint, regions: Vec::new(), free: Default::default() };
        (0..SIZES.len()).try_for_each(|size| send_buffers.grow(size))?;
        Ok(send_buffers)
    }

    /// More slots of one size.
    #[cold]
    fn grow(&mut self, size: usize) -> Result<(), Error> {
        let (length, count) = SIZES[size];
        let step = length + ALIGNED;
        let memory = Memory::allocate(step * count, Pages::Plain)?;
        let region = u16::try_from(self.regions.len()).map_err(|_| {
            let fix = "answer fewer at once";
            Error::new(fabric::Kind::Full, "allocate memory for answers", "too many regions", fix)
        })?;
        self.regions.push(self.endpoint.register(&memory, Rights::NONE)?);
        let slot = |at| Slot { size: size as u8, region, offset: (at * step) as u32 };
        self.free[size].extend((0..count).rev().map(slot));
        Ok(())
    }

    /// A slot with these bytes; `None`: it is too much for any, or the machine has no memory.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Option<Slot> {
        let size = SIZES.iter().position(|(size, _)| bytes.len() <= *size)?;
        if self.free[size].is_empty() {
            self.grow(size).ok()?;
        }
        let slot = self.free[size].pop()?;
        self.regions[usize::from(slot.region)].memory().write(slot.offset as usize, bytes);
        Some(slot)
    }

    /// A word behind a slot, to be set.
    #[inline]
    pub(crate) fn completion_flag(&self, slot: &Slot, word: u64) -> Slice {
        let region = &self.regions[usize::from(slot.region)];
        let offset = slot.offset as usize + SIZES[usize::from(slot.size)].0;
        region.memory().store(offset, word);
        region.slice(offset..offset + FLAG)
    }

    /// A part of what was written.
    #[inline]
    pub(crate) fn slice(&self, slot: &Slot, from: usize, to: usize) -> Slice {
        let offset = slot.offset as usize;
        self.regions[usize::from(slot.region)].slice(offset + from..offset + to)
    }

    #[inline]
    pub(crate) fn give_back(&mut self, slot: Slot) {
        self.free[usize::from(slot.size)].push(slot);
    }
}

impl Slot {
    /// Whether it is of the largest size, of which a connection may use few.
    pub(crate) fn is_large(&self) -> bool {
        usize::from(self.size) == SIZES.len() - 1
    }
}

/// The largest there is.
pub(crate) const LARGEST: usize = SIZES[SIZES.len() - 1].0;

/// A slot's word, and the cache line that it has for itself.
const FLAG: usize = 8;
const ALIGNED: usize = 64;
/// How long, and how many are made at once.
const SIZES: [(usize, usize); 3] = [(2 << 10, 256), (16 << 10, 32), (256 << 10, 4)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back_and_more_are_made() {
        let endpoint = Endpoint::new(Default::default()).unwrap();
        let mut send_buffers = SendBuffers::new(&endpoint).unwrap();
        let all: Vec<Slot> = (0..600).map(|_| send_buffers.write(b"answer").unwrap()).collect();
        assert!(all.iter().all(|slot| send_buffers.slice(slot, 0, 6).to_vec() == b"answer"));
        all.into_iter().for_each(|slot| send_buffers.give_back(slot));
        assert_eq!(send_buffers.free[0].len(), 768);
        let large = send_buffers.write(&vec![1; LARGEST]).unwrap();
        assert!(large.is_large());
        assert!(send_buffers.write(&vec![1; LARGEST + 1]).is_none());
    }
}
