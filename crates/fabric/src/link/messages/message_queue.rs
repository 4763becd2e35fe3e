//! The messages of one lane: slots that the peer's messages land in, places for ours, and the count of both.
//!
//! The peer sends only while we have a slot for it, and we while it has: nobody ever waits for a receive.

use std::collections::VecDeque;

use crate::error::Error;
use crate::half::Fabric;
use crate::link::config::NOTES;
use crate::link::operations::runs;
use crate::link::protocol::header::{Header, Stream};
use crate::memory::{Memory, Pages};
use crate::op::Op;
use crate::region::{Region, Rights, Slice};

#[derive(Debug)]
pub(in crate::link) struct MessageQueue {
    /// Slots first, then as much for messages of ours.
    region: Region,
    slots: u32,
    /// A header and a payload.
    slot_size: usize,
    /// Slots that are with nobody: to be posted; and what was in them, if that is to be reported.
    idle: Vec<(Slice, Option<Stream>)>,
    /// By their number, those that the lane has given back and that are not empty yet.
    full: Vec<Option<Slice>>,
    /// How many of them are empty again, by stream.
    emptied: [u32; 2],
    /// How many are with the lane.
    posted: u32,
    /// Places for messages to send.
    places: Vec<Slice>,
    /// By stream: how many slots the peer has, and how many messages we sent into them.
    theirs: [u16; 2],
    sent: [u32; 2],
    /// By stream: how many the peer has freed, how many we have, and of how many of ours it knows.
    freed_there: [u32; 2],
    freed: [u32; 2],
    reported: [u32; 2],
    ours: [u16; 2],
}

/// Where in its slot a message's payload is.
#[derive(Debug, Clone, Copy)]
pub(in crate::link) struct Payload {
    pub(in crate::link) begin: usize,
    pub(in crate::link) length: usize,
}

impl MessageQueue {
    /// May block: memory is registered.
    pub(in crate::link) fn new(
        fabric: &dyn Fabric,
        messages: u16,
        room: usize,
    ) -> Result<Self, Error> {
        let ours = [messages.max(1), NOTES];
        let slots = u32::from(ours[0]) + u32::from(NOTES);
        let slot_size = (Header::LONGEST + room).next_multiple_of(64);
        let size = 2 * slots as usize * slot_size;
        let memory = Memory::allocate(size, Pages::Plain)?;
        let region = fabric.register(&memory, Rights::NONE)?;
        Ok(MessageQueue {
            slots,
            slot_size,
            idle: (0..slots).map(|slot| (place(&region, slot, slot_size), None)).collect(),
            full: (0..slots).map(|_| None).collect(),
            emptied: [0; 2],
            posted: 0,
            places: Vec::new(),
            region,
            theirs: [0; 2],
            sent: [0; 2],
            freed_there: [0; 2],
            freed: [0; 2],
            reported: [0; 2],
            ours,
        })
    }

    /// How many messages the peer may have in flight here.
    pub(in crate::link) fn slots(&self) -> [u16; 2] {
        self.ours
    }

    /// How many we may have there. A peer that has more than we have places for gets fewer.
    pub(in crate::link) fn peer_has(&mut self, slots: [u16; 2]) {
        self.theirs = [slots[0].min(self.ours[0]), slots[1].min(self.ours[1])];
        let most: u32 = self.theirs.iter().map(|slots| u32::from(*slots)).sum();
        let places = self.slots..self.slots + most;
        self.places = places.map(|at| place(&self.region, at, self.slot_size)).collect();
    }

    // Messages of the peer's.

    /// Receives for the slots that are with nobody. `token` names them. From now on that may be reported.
    pub(in crate::link) fn receives(
        &mut self,
        into: &mut VecDeque<Op>,
        token: impl Fn(u32) -> u64,
    ) {
        self.posted += self.idle.len() as u32;
        self.emptied = [0; 2];
        for (slice, stream) in self.idle.drain(..) {
            if let Some(stream) = stream {
                self.freed[stream as usize] = self.freed[stream as usize].wrapping_add(1);
            }
            let slot = (slice.offset() / self.slot_size) as u32;
            into.push_back(Op::receive(token(slot), slice));
        }
    }

    /// Whether slots wait to be posted, and so many that it is worth it. A peer that has to wait for them
    /// has used far more than that.
    #[inline]
    pub(in crate::link) fn has_idle(&self) -> bool {
        let worth =
            |stream: usize| self.emptied[stream] >= (u32::from(self.ours[stream]) / 8).max(1);
        worth(0) || worth(1) || self.posted == 0
    }

    /// The lane gave a slot back, with a message in it or without.
    pub(in crate::link) fn returned(&mut self, slot: Option<(u32, Slice)>) {
        self.posted -= 1;
        if let Some((slot, slice)) = slot
            && let Some(full) = self.full.get_mut(slot as usize)
        {
            *full = Some(slice);
        }
    }

    /// Whether the lane has slots.
    pub(in crate::link) fn has_posted(&self) -> bool {
        self.posted > 0
    }

    /// The header of a message of so many bytes; `None` if it is none of ours. It is copied, so that the peer
    /// cannot change it while it is looked at.
    pub(in crate::link) fn header(&self, slot: u32, length: usize) -> Option<(Header, Payload)> {
        if length > self.slot_size {
            return None;
        }
        let mut bytes = [0; Header::LONGEST];
        let there = &mut bytes[..length.min(Header::LONGEST)];
        self.region.memory().read(slot as usize * self.slot_size, there);
        let (header, begin) = Header::parse(&bytes, length)?;
        Some((header, Payload { begin, length: length - begin }))
    }

    /// A message's payload, copied.
    pub(in crate::link) fn payload(&self, slot: u32, payload: Payload) -> Vec<u8> {
        let mut bytes = vec![0; payload.length];
        self.region.memory().read(slot as usize * self.slot_size + payload.begin, &mut bytes);
        bytes
    }

    /// Copies as much of a payload as there is room for into slices, from `offset` on; says how much.
    pub(in crate::link) fn copy(
        &self,
        slot: u32,
        payload: Payload,
        into: &[Slice],
        offset: u64,
    ) -> u64 {
        let mut begin = slot as usize * self.slot_size + payload.begin;
        let mut copied = 0;
        for (region, run) in runs(into, offset, payload.length as u64) {
            region.memory().copy(run.start, self.region.memory(), begin, run.len());
            begin += run.len();
            copied += run.len() as u64;
        }
        copied
    }

    /// How many of its slots the peer has freed; `false` if that cannot be.
    pub(in crate::link) fn peer_freed(&mut self, freed: [u32; 2]) -> bool {
        for (at, now) in freed.into_iter().enumerate() {
            let before = self.freed_there[at];
            // Messages of one lane need not come in the order they were sent: an older report counts for nothing.
            if now.wrapping_sub(before) > self.sent[at].wrapping_sub(before) {
                if before.wrapping_sub(now) > u32::from(u16::MAX) {
                    return false;
                }
                continue;
            }
            self.freed_there[at] = now;
        }
        true
    }

    /// A slot is empty again.
    pub(in crate::link) fn free(&mut self, slot: u32, stream: Stream) {
        if let Some(slice) = self.full.get_mut(slot as usize).and_then(Option::take) {
            self.emptied[stream as usize] += 1;
            self.idle.push((slice, Some(stream)));
        }
    }

    // Messages of ours.

    /// Whether the peer has a slot for one more. Some of those for notes are kept for credits.
    #[inline]
    pub(in crate::link) fn has_room(&self, stream: Stream) -> bool {
        let kept = if stream == Stream::Control { KEPT } else { 0 };
        // The peer may have emptied a slot before we know that the message arrived.
        self.room(stream) > kept && self.places.len() as u32 > KEPT.min(u32::from(self.theirs[1]))
    }

    /// As [`Self::has_room`], for a credit.
    pub(in crate::link) fn has_room_for_credit(&self) -> bool {
        self.room(Stream::Control) > 0 && !self.places.is_empty()
    }

    fn room(&self, stream: Stream) -> u32 {
        let at = stream as usize;
        let used = self.sent[at].wrapping_sub(self.freed_there[at]);
        u32::from(self.theirs[at]).saturating_sub(used)
    }

    /// Whether the peer should know that slots are free, even by a message of its own.
    pub(in crate::link) fn owes_credit(&self) -> bool {
        (0..2).any(|at| {
            let unreported = self.freed[at].wrapping_sub(self.reported[at]);
            unreported >= (u32::from(self.ours[at]) / 4).max(1) && unreported > 0
        })
    }

    /// How many slots are free again, by stream: that is reported to the peer.
    pub(in crate::link) fn report_freed(&mut self) -> [u32; 2] {
        self.reported = self.freed;
        self.freed
    }

    /// Writes a message with so many bytes of `from`, from `offset` on; says where it stands: that place is to be
    /// given back. The caller has asked for room.
    pub(in crate::link) fn write(
        &mut self,
        mut header: Header,
        (from, offset, length): (&[Slice], u64, u64),
    ) -> Option<Slice> {
        let place = self.places.pop()?;
        header.freed = self.report_freed();
        let stream = header.body.stream() as usize;
        self.sent[stream] = self.sent[stream].wrapping_add(1);
        let begin = place.offset();
        let (bytes, own) = header.to_bytes();
        self.region.memory().write(begin, &bytes[..own]);
        let mut end = begin + own;
        for (region, run) in runs(from, offset, length) {
            self.region.memory().copy(end, region.memory(), run.start, run.len());
            end += run.len();
        }
        Some(place.resized(end - begin))
    }

    /// A message has arrived: its place is free.
    pub(in crate::link) fn give_back(&mut self, place: Slice) {
        self.places.push(place);
    }
}

fn place(region: &Region, at: u32, size: usize) -> Slice {
    let begin = at as usize * size;
    region.slice(begin..begin + size)
}

/// Slots for notes that only credits use: with them each end can always report that it has room again.
const KEPT: u32 = 4;
