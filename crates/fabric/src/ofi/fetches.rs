//! Reads of long messages' fragments from the peer's rendezvous buffers into their receives.

use std::collections::VecDeque;

use super::endpoint::Remote;
use super::gather::Gather;
use crate::region::Slice;
use crate::slab::Slab;
use crate::splitter::{Splitter, WorkRequestLimits};

pub(super) struct Fetches {
    all: Slab<Fetch>,
    /// Not completely submitted to the provider yet, the oldest first.
    waiting: VecDeque<u32>,
    received: u64,
}

/// A fragment to read.
pub(super) struct Fetch {
    pub(super) message: u64,
    /// Its offset in the message.
    pub(super) offset: usize,
    length: usize,
    from: Remote,
    /// The number of bytes submitted to the provider, and of reads in flight.
    requested: usize,
    reads: u32,
}

impl Fetch {
    pub(super) fn new(message: u64, offset: usize, length: usize, from: Remote) -> Self {
        Fetch { message, offset, length, from, requested: 0, reads: 0 }
    }

    /// The next memory to read into, and the address to read from. `None` if a part of it is no longer registered with the domain.
    pub(super) fn next(
        &self,
        into: &[Slice],
        most: WorkRequestLimits,
        domain: u32,
    ) -> Option<(Gather, Remote)> {
        let (mut gather, mut all_registered) = (Gather::new(), true);
        let left = u32::try_from(self.length - self.requested).unwrap_or(u32::MAX);
        let most = WorkRequestLimits { bytes: most.bytes.min(left), ..most };
        Splitter::at(into, self.offset + self.requested).next(into, most, |slice, from, length| {
            all_registered &= gather.add(slice, from, length as usize, domain);
        });
        let address = self.from.address.wrapping_add(self.requested as u64);
        all_registered.then_some((gather, Remote { address, ..self.from }))
    }
}

impl Fetches {
    pub(super) fn new() -> Self {
        Fetches { all: Slab::new(), waiting: VecDeque::new(), received: 0 }
    }

    /// The number of messages received, up to the last one that was read completely.
    #[inline]
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// All fragments of a message were read.
    pub(super) fn receive(&mut self, message: u64) {
        self.received = self.received.max(message + 1);
    }

    pub(super) fn add(&mut self, fetch: Fetch) {
        self.waiting.push_back(self.all.insert(fetch));
    }

    /// The oldest fragment that is not completely submitted.
    #[inline]
    pub(super) fn front(&self) -> Option<(u32, &Fetch)> {
        let at = *self.waiting.front()?;
        Some((at, self.all.get(at)?))
    }

    /// Records that `bytes` of the oldest fragment were submitted.
    pub(super) fn advance(&mut self, bytes: usize) {
        let Some(fetch) = self.waiting.front().and_then(|at| self.all.get_mut(*at)) else { return };
        (fetch.requested, fetch.reads) = (fetch.requested + bytes, fetch.reads + 1);
        if fetch.requested == fetch.length {
            self.waiting.pop_front();
        }
    }

    /// A read has completed; returns the fragment if it was the last read.
    pub(super) fn complete(&mut self, at: u32) -> Option<Fetch> {
        let fetch = self.all.get_mut(at)?;
        fetch.reads -= 1;
        let is_finished = fetch.reads == 0 && fetch.requested == fetch.length;
        is_finished.then(|| self.all.remove(at))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_complete_after_its_last_read() {
        let mut fetches = Fetches::new();
        let from = Remote { address: 1000, key: 7 };
        fetches.add(Fetch::new(3, 500, 100, from));
        let (at, fetch) = fetches.front().unwrap();
        assert_eq!((fetch.message, fetch.requested), (3, 0));
        fetches.advance(60);
        assert_eq!(fetches.front().unwrap().1.requested, 60);
        assert!(fetches.complete(at).is_none(), "the rest was not requested");
        fetches.advance(30);
        fetches.advance(10);
        assert!(fetches.front().is_none() && fetches.complete(at).is_none());
        assert_eq!(fetches.complete(at).map(|fetch| fetch.offset), Some(500));
    }
}
