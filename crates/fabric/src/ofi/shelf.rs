//! Where long messages lie until the peer has read them.
//!
//! The peer gets a key to this memory and to no other: nothing is ever in it but what was sent to that peer, and it stays
//! until the endpoint is closed, whatever the peer says that it has read. So a message is copied once, here instead of
//! out of the peer's buffers, and the peer's device puts it straight into its receive.

use std::sync::Arc;

use super::device::Device;
use super::endpoint::Remote;
use super::frame::PART;
use super::mr::Mr;
use crate::memory::{Memory, Pages};
use crate::region::{Rights, Slice};

pub(super) struct Shelf {
    device: Arc<Device>,
    state: State,
    pub(super) places: Places,
}

/// What lies in each place.
#[derive(Debug, Default)]
pub(super) struct Places([Option<Laid>; PLACES]);

/// A message, and where in it that part begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Laid {
    message: u64,
    offset: u64,
}

/// Made with the first long message: most lanes have none.
enum State {
    Unmade,
    Made(Arc<Mr>),
    /// There is no memory for it, or none that may be registered: then long messages go as short ones do.
    Refused,
}

impl Shelf {
    pub(super) fn new(device: Arc<Device>) -> Self {
        Shelf { device, state: State::Unmade, places: Places::default() }
    }

    /// Whether there is one.
    pub(super) fn is_there(&mut self) -> bool {
        if matches!(self.state, State::Unmade) {
            let memory = Memory::allocate(PLACES * PART, Pages::Plain);
            let readable = Rights { read: true, ..Rights::NONE };
            let mr = memory.and_then(|memory| Mr::new(self.device.clone(), &memory, readable));
            self.state = mr.map_or(State::Refused, |mr| State::Made(Arc::new(mr)));
        }
        matches!(self.state, State::Made(_))
    }

    /// Copies bytes of a slice to a place, from `at` on.
    pub(super) fn copy(&self, place: usize, at: usize, slice: &Slice, from: usize, length: usize) {
        if let State::Made(mr) = &self.state {
            let (memory, start) = (slice.region().memory(), slice.offset() + from);
            mr.memory().copy(place * PART + at, memory, start, length);
        }
    }

    /// A place where nothing lies, and where the peer finds it.
    pub(super) fn free(&self) -> Option<(usize, Remote)> {
        let (State::Made(mr), Some(place)) = (&self.state, self.places.free()) else { return None };
        Some((place, Remote { address: mr.start() + (place * PART) as u64, key: mr.key() }))
    }
}

impl Places {
    /// One where nothing lies.
    pub(super) fn free(&self) -> Option<usize> {
        self.0.iter().position(Option::is_none)
    }

    /// A part of a message lies there now.
    pub(super) fn lay(&mut self, place: usize, message: u64, offset: u64) {
        self.0[place] = Some(Laid { message, offset });
    }

    /// The peer has read a part.
    pub(super) fn take(&mut self, message: u64, offset: u64) {
        self.forget(|laid| *laid == Laid { message, offset });
    }

    /// The peer has received a message: all its parts were read.
    pub(super) fn clear(&mut self, message: u64) {
        self.forget(|laid| laid.message == message);
    }

    fn forget(&mut self, which: impl Fn(&Laid) -> bool) {
        for place in &mut self.0 {
            place.take_if(|laid| which(laid));
        }
    }
}

/// Enough for the peer to read one part while the next is copied.
const PLACES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_free_once_the_peer_has_read_them_or_received_all() {
        let mut places = Places::default();
        for part in 0..PLACES as u64 {
            places.lay(places.free().unwrap(), 7, part);
        }
        assert_eq!(places.free(), None);
        places.take(7, 2);
        assert_eq!(places.free(), Some(2));
        places.take(7, 2);
        places.take(8, 0);
        places.lay(2, 8, 0);
        places.clear(7);
        assert_eq!(places.0.iter().flatten().count(), 1);
        places.clear(8);
        assert_eq!(places.free(), Some(0));
    }
}
