//! Parts of long messages that lie with the peer, and are read from there into their receives.

use std::collections::VecDeque;

use super::endpoint::Remote;
use super::gather::Gather;
use crate::cut::{Cut, Most};
use crate::region::Slice;
use crate::slab::Slab;

pub(super) struct Fetches {
    all: Slab<Fetch>,
    /// Not wholly with the provider yet, the oldest first.
    waiting: VecDeque<u32>,
    received: u64,
}

/// One part.
pub(super) struct Fetch {
    pub(super) message: u64,
    /// Where it begins in its message.
    pub(super) offset: usize,
    length: usize,
    from: Remote,
    /// How many of its bytes the provider was asked for, and in how many reads that are not over.
    asked: usize,
    reads: u32,
}

impl Fetch {
    pub(super) fn new(message: u64, offset: usize, length: usize, from: Remote) -> Self {
        Fetch { message, offset, length, from, asked: 0, reads: 0 }
    }

    /// What to read next, and where that lies. `None`: a piece is not registered with this device any more.
    pub(super) fn next(&self, into: &[Slice], most: Most, domain: u32) -> Option<(Gather, Remote)> {
        let (mut pieces, mut whole) = (Gather::new(), true);
        let left = u32::try_from(self.length - self.asked).unwrap_or(u32::MAX);
        let most = Most { bytes: most.bytes.min(left), ..most };
        Cut::at(into, self.offset + self.asked).next(into, most, |slice, from, length| {
            whole &= pieces.add(slice, from, length as usize, domain);
        });
        let address = self.from.address.wrapping_add(self.asked as u64);
        whole.then_some((pieces, Remote { address, ..self.from }))
    }
}

impl Fetches {
    pub(super) fn new() -> Self {
        Fetches { all: Slab::new(), waiting: VecDeque::new(), received: 0 }
    }

    /// How many messages were received with the last that was read whole.
    #[inline]
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// All of that message was read.
    pub(super) fn receive(&mut self, message: u64) {
        self.received = self.received.max(message + 1);
    }

    pub(super) fn add(&mut self, fetch: Fetch) {
        self.waiting.push_back(self.all.insert(fetch));
    }

    /// The oldest that is to be asked for.
    #[inline]
    pub(super) fn front(&self) -> Option<(u32, &Fetch)> {
        let at = *self.waiting.front()?;
        Some((at, self.all.get(at)?))
    }

    /// The provider was asked for so many bytes of the oldest.
    pub(super) fn advance(&mut self, bytes: usize) {
        let Some(fetch) = self.waiting.front().and_then(|at| self.all.get_mut(*at)) else { return };
        (fetch.asked, fetch.reads) = (fetch.asked + bytes, fetch.reads + 1);
        if fetch.asked == fetch.length {
            self.waiting.pop_front();
        }
    }

    /// One of its reads is over; the part, if that was the last.
    pub(super) fn complete(&mut self, at: u32) -> Option<Fetch> {
        let fetch = self.all.get_mut(at)?;
        fetch.reads -= 1;
        let is_over = fetch.reads == 0 && fetch.asked == fetch.length;
        is_over.then(|| self.all.remove(at))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_over_with_the_last_of_its_reads() {
        let mut fetches = Fetches::new();
        let from = Remote { address: 1000, key: 7 };
        fetches.add(Fetch::new(3, 500, 100, from));
        let (at, fetch) = fetches.front().unwrap();
        assert_eq!((fetch.message, fetch.asked), (3, 0));
        fetches.advance(60);
        assert_eq!(fetches.front().unwrap().1.asked, 60);
        assert!(fetches.complete(at).is_none(), "the rest was not asked for");
        fetches.advance(30);
        fetches.advance(10);
        assert!(fetches.front().is_none() && fetches.complete(at).is_none());
        assert_eq!(fetches.complete(at).map(|fetch| fetch.offset), Some(500));
    }
}
