//! Where long messages lie until the peer has read them.
//!
//! The peer gets a key to this memory and to no other: nothing is ever in it but what was sent to that peer, and it stays
//! until the endpoint is closed, whatever the peer says that it has read. So a message is copied once, here instead of
//! out of the peer's buffers, and the peer's device puts it straight into its receive.

use std::sync::Arc;

use super::device::Device;
use super::endpoint::Remote;
use super::frame::PART;
use super::mr;
use crate::cut::{Cut, Most};
use crate::memory::{Memory, Pages};
use crate::region::{Rights, Slice};
use crate::registration::ofi::Mr;

pub(super) struct RendezvousBuffers {
    device: Arc<Device>,
    state: State,
    places: Places,
    /// What was copied already, and where to, though the peer could not be told.
    ready: Option<(usize, Laid)>,
}

/// What lies in each place. A part has as many as it needs, side by side.
#[derive(Debug, Default)]
struct Places([Option<Laid>; PLACES]);

/// A part of a message, and where in it that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Laid {
    pub(super) message: u64,
    pub(super) offset: u64,
}

/// Made with the first long message: most lanes have none.
enum State {
    Unmade,
    Made(Arc<Mr>),
    /// There is no memory for it, or none that may be registered: then long messages go as short ones do.
    Refused,
}

impl RendezvousBuffers {
    pub(super) fn new(device: Arc<Device>) -> Self {
        RendezvousBuffers { device, state: State::Unmade, places: Places::default(), ready: None }
    }

    /// Whether there is one.
    pub(super) fn is_there(&mut self) -> bool {
        if matches!(self.state, State::Unmade) {
            let memory = Memory::allocate(PLACES * PLACE, Pages::Plain);
            let readable = Rights { read: true, ..Rights::NONE };
            let mr = memory.and_then(|memory| mr::register(self.device.clone(), &memory, readable));
            self.state = mr.map_or(State::Refused, |mr| State::Made(Arc::new(mr)));
        }
        matches!(self.state, State::Made(_))
    }

    /// Where so many bytes have room, and where the peer finds that.
    pub(super) fn free(&self, bytes: usize) -> Option<(usize, Remote)> {
        let State::Made(mr) = &self.state else { return None };
        let place = self.places.free(bytes)?;
        Some((place, Remote { address: mr.start() + (place * PLACE) as u64, key: mr.key() }))
    }

    /// Copies the next part of an operation to a place, unless it is there already; whether it is the last.
    pub(super) fn copy(&mut self, place: usize, laid: Laid, cut: &mut Cut, from: &[Slice]) -> bool {
        let State::Made(mr) = &self.state else { return false };
        let is_ready = self.ready.replace((place, laid)) == Some((place, laid));
        let mut at = place * PLACE;
        let most = Most { bytes: PART as u32, pieces: usize::MAX };
        let part = cut.next(from, most, |slice, from, length| {
            if !is_ready {
                let (memory, start) = (slice.region().memory(), slice.offset() + from);
                mr.memory().copy(at, memory, start, length as usize);
            }
            at += length as usize;
        });
        part.last
    }

    /// A part, so long, lies there now.
    pub(super) fn lay(&mut self, place: usize, bytes: usize, laid: Laid) {
        self.places.lay(place, bytes, laid);
    }

    /// The peer has read a part.
    pub(super) fn take(&mut self, message: u64, offset: u64) {
        self.places.forget(|laid| *laid == Laid { message, offset });
    }

    /// The peer has received a message, which may have lain here: all its parts were read.
    #[inline]
    pub(super) fn clear(&mut self, message: u64) {
        if matches!(self.state, State::Made(_)) {
            self.places.forget(|laid| laid.message == message);
        }
    }
}

impl Places {
    /// The first of as many as so many bytes need, where nothing lies.
    fn free(&self, bytes: usize) -> Option<usize> {
        let wanted = bytes.div_ceil(PLACE);
        self.0.windows(wanted).position(|places| places.iter().all(Option::is_none))
    }

    fn lay(&mut self, place: usize, bytes: usize, laid: Laid) {
        self.0[place..][..bytes.div_ceil(PLACE)].fill(Some(laid));
    }

    fn forget(&mut self, which: impl Fn(&Laid) -> bool) {
        for place in &mut self.0 {
            place.take_if(|laid| which(laid));
        }
    }
}

/// Two parts of a long message, so that the peer reads one while the next is copied, or eight messages that are not so
/// long. More of it would be slower: what is copied here should be in the CPU's cache when the provider sends it.
const PLACES: usize = 8;
const PLACE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_free_once_the_peer_has_read_them_or_received_all() {
        let mut places = Places::default();
        let laid = |message, offset| Laid { message, offset };
        for part in 0..2 {
            let place = places.free(PART).unwrap();
            assert_eq!(place, part * PART / PLACE);
            places.lay(place, PART, laid(7, part as u64));
        }
        assert_eq!(places.free(1), None);
        places.forget(|part| *part == laid(7, 1));
        assert_eq!(
            (places.free(1), places.free(PART), places.free(PART + 1)),
            (Some(4), Some(4), None)
        );
        places.forget(|part| *part == laid(7, 1));
        places.forget(|part| *part == laid(8, 0));
        places.lay(4, PLACE + 1, laid(8, 0));
        assert_eq!((places.free(2 * PLACE), places.free(PART)), (Some(6), None));
        places.forget(|part| part.message == 7);
        assert_eq!(places.0.iter().flatten().count(), 2);
        places.forget(|part| part.message == 8);
        assert_eq!(places.free(PLACES * PLACE), Some(0));
    }
}
