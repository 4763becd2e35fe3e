//! The message buffers of one lane: receive slots, send buffers, and credits.
//!
//! Each end sends only while the other has a free slot, so that a send never waits for a receive.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::link::config::INTERNAL_SLOTS;
use crate::link::operations::runs;
use crate::link::protocol::header::{Header, MessageClass};
use crate::memory::{Memory, Pages};
use crate::op::Op;
use crate::region::{Region, Rights, Slice};
use crate::setup::{Direction, Fabric};

#[derive(Debug)]
pub(in crate::link) struct MessageBuffers {
    /// The number of receive slots; fewer than the peer's credits if messages wait in a queue that lanes share.
    slots: u32,
    /// Header and payload.
    slot_size: usize,
    /// Whether slots are only between a queue that lanes share and the caller's receives: a message that waits for a receive
    /// is copied out of its slot, and its credit is returned when it is taken.
    shared: bool,
    /// Whether a receive failed: no further message arrives.
    failed: bool,
    /// Slots to be posted, with the class of the message that was in them, if any.
    unposted: Vec<(Slice, Option<MessageClass>)>,
    /// By slot number: slots that contain a message.
    occupied: Vec<Option<Slice>>,
    /// The number of slots freed since the last posting, by class.
    freed_unposted: [u32; 2],
    /// The number of messages that were copied out of their slots and are not taken.
    copied_out: u32,
    /// The number of posted slots.
    posted: u32,
    /// Free send buffers.
    send_buffers: Vec<Slice>,
    /// By class: the number of the peer's slots, and of messages sent into them.
    peer_slots: [u16; 2],
    sent: [u32; 2],
    /// By class: the number of slots freed by the peer, freed by us, and reported by us; and the number of our slots.
    freed_by_peer: [u32; 2],
    freed: [u32; 2],
    reported: [u32; 2],
    our_slots: [u16; 2],
    // Last: returned when the slices above are dropped.
    receive_memory: LaneMemory,
    send_memory: LaneMemory,
}

/// The registered memory of one lane, returned to its fabric unless an operation may still use it.
struct LaneMemory {
    region: Region,
    /// `None` for memory that is not registered.
    fabric: Option<(Arc<dyn Fabric>, Direction)>,
}

impl LaneMemory {
    fn registered(
        fabric: &Arc<dyn Fabric>,
        direction: Direction,
        bytes: usize,
    ) -> Result<Self, Error> {
        let region = fabric.message_memory(direction, bytes)?;
        Ok(LaneMemory { region, fabric: Some((fabric.clone(), direction)) })
    }

    /// For messages that the CPU copies.
    fn unregistered(bytes: usize) -> Result<Self, Error> {
        let memory = Memory::allocate(bytes, Pages::Plain)?;
        Ok(LaneMemory { region: Region::shared(&memory, Rights::NONE), fabric: None })
    }
}

impl Drop for LaneMemory {
    fn drop(&mut self) {
        if let Some((fabric, direction)) = self.fabric.take()
            && self.region.is_unique()
        {
            fabric.return_message_memory(direction, self.region.clone());
        }
    }
}

impl fmt::Debug for LaneMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.region.fmt(f)
    }
}

/// The position of a payload in its slot.
#[derive(Debug, Clone, Copy)]
pub(in crate::link) struct Payload {
    pub(in crate::link) begin: usize,
    pub(in crate::link) length: usize,
}

impl MessageBuffers {
    /// May block: memory is registered.
    pub(in crate::link) fn new(
        fabric: &Arc<dyn Fabric>,
        message_slots: u16,
        max_payload: usize,
    ) -> Result<Self, Error> {
        let our_slots = [message_slots.max(1), INTERNAL_SLOTS];
        let total = u32::from(our_slots[0]) + u32::from(INTERNAL_SLOTS);
        let slot_size = slot_size(max_payload);
        let shared = fabric.uses_srq();
        let slots = if shared { total.min(SLOTS_WITH_SRQ) } else { total };
        let bytes = |slots: u32| slots as usize * slot_size;
        let receive_memory = match shared {
            true => LaneMemory::unregistered(bytes(slots))?,
            false => LaneMemory::registered(fabric, Direction::Receive, bytes(slots))?,
        };
        let send_memory = LaneMemory::registered(fabric, Direction::Send, bytes(total))?;
        let slot = |slot| (buffer(&receive_memory.region, slot, slot_size), None);
        Ok(MessageBuffers {
            slots,
            slot_size,
            shared,
            failed: false,
            unposted: (0..slots).map(slot).collect(),
            occupied: (0..slots).map(|_| None).collect(),
            freed_unposted: [0; 2],
            copied_out: 0,
            posted: 0,
            send_buffers: Vec::new(),
            peer_slots: [0; 2],
            sent: [0; 2],
            freed_by_peer: [0; 2],
            freed: [0; 2],
            reported: [0; 2],
            our_slots,
            receive_memory,
            send_memory,
        })
    }

    /// The number of our receive slots by class.
    pub(in crate::link) fn slots(&self) -> [u16; 2] {
        self.our_slots
    }

    /// Sets the number of the peer's slots. No more than the number of our send buffers are used.
    pub(in crate::link) fn set_peer_slots(&mut self, slots: [u16; 2]) {
        self.peer_slots = [slots[0].min(self.our_slots[0]), slots[1].min(self.our_slots[1])];
        let total: u32 = self.peer_slots.iter().map(|slots| u32::from(*slots)).sum();
        let send_buffer = |at| buffer(&self.send_memory.region, at, self.slot_size);
        self.send_buffers = (0..total).map(send_buffer).collect();
    }

    /// The number of receives that the lane must accept.
    pub(in crate::link) fn receives(&self) -> usize {
        self.slots as usize
    }

    // Receiving.

    /// Appends receives for all slots to be posted, which count as freed from now on. `op_id` maps slots to ids of operations.
    pub(in crate::link) fn append_receives(
        &mut self,
        into: &mut VecDeque<Op>,
        op_id: impl Fn(u32) -> u64,
    ) {
        self.posted += self.unposted.len() as u32;
        self.freed_unposted = [0; 2];
        for (slice, class) in self.unposted.drain(..) {
            if let Some(class) = class {
                self.freed[class as usize] = self.freed[class as usize].wrapping_add(1);
            }
            let slot = (slice.offset() / self.slot_size) as u32;
            into.push_back(Op::receive(op_id(slot), slice));
        }
    }

    /// Whether enough slots wait to be posted: an eighth of them. A peer that waits for slots
    /// has used far more than that.
    #[inline]
    pub(in crate::link) fn should_post(&self) -> bool {
        if self.shared {
            let unposted = self.unposted.len() as u32;
            return unposted * 2 >= self.slots || (self.posted == 0 && unposted > 0);
        }
        let worth = |class: usize| {
            self.freed_unposted[class] >= (u32::from(self.our_slots[class]) / 8).max(1)
        };
        worth(0) || worth(1) || self.posted == 0
    }

    /// The lane returned a slot, with or without a message.
    pub(in crate::link) fn slot_returned(&mut self, slot: Option<(u32, Slice)>) {
        self.posted -= 1;
        if let Some((slot, slice)) = slot
            && let Some(occupied) = self.occupied.get_mut(slot as usize)
        {
            *occupied = Some(slice);
        }
    }

    /// A receive returned without a message: the lane has ended, and all its messages have arrived.
    pub(in crate::link) fn receive_failed(&mut self) {
        self.failed = true;
    }

    /// Whether messages of a lane that has ended may still wait in a shared queue for slots.
    #[inline]
    pub(in crate::link) fn may_have_unexpected(&self) -> bool {
        self.shared && !self.failed
    }

    /// Whether slots are posted.
    pub(in crate::link) fn has_posted(&self) -> bool {
        self.posted > 0
    }

    /// The header of a message of this length; `None` if it is invalid. It is copied, so that the peer
    /// cannot change it while it is parsed.
    pub(in crate::link) fn header(&self, slot: u32, length: usize) -> Option<(Header, Payload)> {
        if length > self.slot_size {
            return None;
        }
        let mut bytes = [0; Header::MAX_BYTES];
        let there = &mut bytes[..length.min(Header::MAX_BYTES)];
        self.receive_memory.region.memory().read(slot as usize * self.slot_size, there);
        let (header, begin) = Header::parse(&bytes, length)?;
        Some((header, Payload { begin, length: length - begin }))
    }

    /// A copy of a message's payload.
    pub(in crate::link) fn payload(&self, slot: u32, payload: Payload) -> Vec<u8> {
        let mut bytes = vec![0; payload.length];
        let begin = slot as usize * self.slot_size + payload.begin;
        self.receive_memory.region.memory().read(begin, &mut bytes);
        bytes
    }

    /// If slots must not contain waiting messages: a copy of a message's payload, whose slot is free again, but not its
    /// credit, see [`Self::return_credit`].
    pub(in crate::link) fn copy_out(&mut self, slot: u32, payload: Payload) -> Option<Vec<u8>> {
        if !self.shared {
            return None;
        }
        let bytes = self.payload(slot, payload);
        if let Some(slice) = self.occupied.get_mut(slot as usize).and_then(Option::take) {
            self.unposted.push((slice, None));
        }
        self.copied_out += 1;
        Some(bytes)
    }

    /// Whether more messages wait than the peer has credits for.
    pub(in crate::link) fn exceeds_credits(&self) -> bool {
        self.copied_out > u32::from(self.our_slots[0])
    }

    /// A message that was copied out of its slot is taken: the peer may send another.
    pub(in crate::link) fn return_credit(&mut self, class: MessageClass) {
        self.copied_out -= 1;
        self.freed[class as usize] = self.freed[class as usize].wrapping_add(1);
    }

    /// Copies a payload into slices at `offset`, as far as it fits; returns the number of bytes copied.
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
            let from = self.receive_memory.region.memory();
            region.memory().copy(run.start, from, begin, run.len());
            begin += run.len();
            copied += run.len() as u64;
        }
        copied
    }

    /// Updates the number of slots that the peer has freed; `false` if it is invalid.
    pub(in crate::link) fn peer_freed(&mut self, freed: [u32; 2]) -> bool {
        for (at, now) in freed.into_iter().enumerate() {
            let before = self.freed_by_peer[at];
            // Messages on one lane may arrive out of order: older counts are ignored.
            if now.wrapping_sub(before) > self.sent[at].wrapping_sub(before) {
                if before.wrapping_sub(now) > u32::from(u16::MAX) {
                    return false;
                }
                continue;
            }
            self.freed_by_peer[at] = now;
        }
        true
    }

    /// A slot is free again.
    pub(in crate::link) fn free(&mut self, slot: u32, class: MessageClass) {
        let Some(slice) = self.occupied.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        if self.shared {
            // The peer's next message needs no slot of this lane.
            self.unposted.push((slice, None));
            self.freed[class as usize] = self.freed[class as usize].wrapping_add(1);
            return;
        }
        self.freed_unposted[class as usize] += 1;
        self.unposted.push((slice, Some(class)));
    }

    // Sending.

    /// Whether one more message can be sent. Some slots for internal messages are reserved for credits.
    #[inline]
    pub(in crate::link) fn has_capacity(&self, class: MessageClass) -> bool {
        let reserved = if class == MessageClass::Internal { CREDIT_SLOTS } else { 0 };
        // The peer may free a slot before the send completes here.
        self.credit(class) > reserved
            && self.send_buffers.len() as u32 > CREDIT_SLOTS.min(u32::from(self.peer_slots[1]))
    }

    /// As [`Self::has_capacity`], for a credit.
    pub(in crate::link) fn can_send_credit(&self) -> bool {
        self.credit(MessageClass::Internal) > 0 && !self.send_buffers.is_empty()
    }

    fn credit(&self, class: MessageClass) -> u32 {
        let at = class as usize;
        let used = self.sent[at].wrapping_sub(self.freed_by_peer[at]);
        u32::from(self.peer_slots[at]).saturating_sub(used)
    }

    /// Whether enough slots were freed since the last report to send a credit.
    pub(in crate::link) fn is_credit_due(&self) -> bool {
        (0..2).any(|at| {
            let unreported = self.freed[at].wrapping_sub(self.reported[at]);
            unreported >= (u32::from(self.our_slots[at]) / 4).max(1) && unreported > 0
        })
    }

    /// The number of freed slots by class, which counts as reported to the peer.
    pub(in crate::link) fn report_freed(&mut self) -> [u32; 2] {
        self.reported = self.freed;
        self.freed
    }

    /// Writes a message with `length` bytes of `from`, starting at `offset`, into a send buffer, to be returned by
    /// [`MessageBuffers::return_buffer`]. The caller has checked for capacity.
    pub(in crate::link) fn write(
        &mut self,
        mut header: Header,
        (from, offset, length): (&[Slice], u64, u64),
    ) -> Option<Slice> {
        let buffer = self.send_buffers.pop()?;
        header.freed = self.report_freed();
        let class = header.body.class() as usize;
        self.sent[class] = self.sent[class].wrapping_add(1);
        let begin = buffer.offset();
        let (bytes, own) = header.to_bytes();
        let memory = self.send_memory.region.memory();
        memory.write(begin, &bytes[..own]);
        let mut end = begin + own;
        for (region, run) in runs(from, offset, length) {
            memory.copy(end, region.memory(), run.start, run.len());
            end += run.len();
        }
        Some(buffer.resized(end - begin))
    }

    /// Returns a send buffer.
    pub(in crate::link) fn return_buffer(&mut self, buffer: Slice) {
        self.send_buffers.push(buffer);
    }
}

/// The size of a slot for a payload.
pub(in crate::link) fn slot_size(max_payload: usize) -> usize {
    (Header::MAX_BYTES + max_payload).next_multiple_of(64)
}

fn buffer(region: &Region, at: u32, size: usize) -> Slice {
    let begin = at as usize * size;
    region.slice(begin..begin + size)
}

/// The number of slots of a lane on a shared queue: a few, so that messages which arrive together are taken together.
const SLOTS_WITH_SRQ: u32 = 8;

/// Slots for internal messages that are reserved for credits, so that each end can always report free slots.
const CREDIT_SLOTS: u32 = 4;
