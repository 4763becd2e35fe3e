//! Memory of a worker's from which answers go out: slots of a few sizes, registered once.

use fabric::link::Endpoint;
use fabric::{Error, Memory, Pages, Region, Rights, Slice};

/// Slots of all sizes.
pub(crate) struct Desk {
    region: Region,
    free: [Vec<u32>; SIZES.len()],
}

/// A slot, to be given back.
#[derive(Debug)]
pub(crate) struct Slot {
    size: u8,
    offset: u32,
}

impl Desk {
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, Error> {
        let total = SIZES.iter().map(|(size, count)| size * count).sum();
        let region = endpoint.register(&Memory::allocate(total, Pages::Plain)?, Rights::NONE)?;
        let mut begin = 0;
        let free = SIZES.map(|(size, count)| {
            let slots = (0..count).rev().map(|at| (begin + at * size) as u32).collect();
            begin += size * count;
            slots
        });
        Ok(Desk { region, free })
    }

    /// A slot for these bytes; `None`: they are all in use, or it is too much for any.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Option<Slot> {
        let least = SIZES.iter().position(|(size, _)| bytes.len() <= *size)?;
        for (size, free) in self.free.iter_mut().enumerate().skip(least) {
            if let Some(offset) = free.pop() {
                self.region.memory().write(offset as usize, bytes);
                return Some(Slot { size: size as u8, offset });
            }
        }
        None
    }

    /// A part of what was written.
    #[inline]
    pub(crate) fn slice(&self, slot: &Slot, from: usize, to: usize) -> Slice {
        let offset = slot.offset as usize;
        self.region.slice(offset + from..offset + to)
    }

    #[inline]
    pub(crate) fn give_back(&mut self, slot: Slot) {
        self.free[usize::from(slot.size)].push(slot.offset);
    }
}

/// The largest there is.
pub(crate) const LARGEST: usize = SIZES[SIZES.len() - 1].0;

/// How long, and how many.
const SIZES: [(usize, usize); 3] = [(2 << 10, 1024), (16 << 10, 128), (256 << 10, 16)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back_and_larger_ones_stand_in() {
        let endpoint = Endpoint::new(Default::default()).unwrap();
        let mut desk = Desk::new(&endpoint).unwrap();
        let all: Vec<Slot> = std::iter::from_fn(|| desk.write(b"answer")).collect();
        assert_eq!(all.len(), SIZES.iter().map(|(_, count)| count).sum());
        assert!(all.iter().all(|slot| desk.slice(slot, 0, 6).to_vec() == b"answer"));
        all.into_iter().for_each(|slot| desk.give_back(slot));
        assert!(desk.write(&vec![1; LARGEST]).is_some());
        assert!(desk.write(&vec![1; LARGEST + 1]).is_none());
    }
}
