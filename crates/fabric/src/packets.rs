//! Packets: bytes for the owner of the peer's lane, without an operation at either end.
//!
//! A link sends its messages in them where a lane has them: nothing is posted to receive one, and none is completed; the
//! sender learns only how many have arrived. Start at [`Packets`].

use std::collections::VecDeque;

use crate::op::{Completion, Failure, Op};
use crate::region::Slice;

/// A lane's packets. They arrive once and in order, and none arrives before the writes that were posted before it if the lane is
/// [ordered](crate::Caps::ordered); but those with immediate data, which wait for a receive, may be overtaken. What a peer does not
/// read is queued here: the owner limits that by [`PacketCounts::delivered`].
pub trait Packets {
    /// Accepts packets of at most this many bytes from now on. A packet that is not accepted ends the lane.
    fn accept(&mut self, max_length: usize);

    /// Posts `before`, as [`Lane::post`](crate::Lane::post) does, and then one packet; `false`: it takes neither all operations
    /// nor the packet now. [`Packets::flush`] must follow.
    ///
    /// # Panics
    /// If the packet's body is shorter than its length.
    fn send(&mut self, before: &mut VecDeque<Op>, packet: Packet<'_>) -> bool;

    /// Sends what was queued.
    fn flush(&mut self);

    /// As [`Lane::poll`](crate::Lane::poll), and gives the packets that have arrived to `receiver`: also those that arrived
    /// when the lane was polled without one.
    fn poll(
        &mut self,
        receiver: &mut dyn PacketReceiver,
        done: &mut Vec<Completion>,
    ) -> PacketCounts;
}

/// Receives the packets of a lane while it is polled.
pub trait PacketReceiver {
    /// A packet has arrived.
    fn packet(&mut self, bytes: &[u8]);
}

/// Keeps copies.
impl PacketReceiver for Vec<Vec<u8>> {
    fn packet(&mut self, bytes: &[u8]) {
        self.push(bytes.to_vec());
    }
}

/// A packet to be sent: the bytes of `head`, then `length` bytes at `offset` of `body`.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The first bytes.
    pub head: &'a [u8],
    /// Memory with the other bytes.
    pub body: &'a [Slice],
    /// Where they start in it.
    pub offset: usize,
    /// Their number.
    pub length: usize,
}

/// What has become of a lane's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketCounts {
    /// How many of the peer have arrived, in all.
    pub arrived: u64,
    /// How many of those sent have arrived at the peer's lane, in all.
    pub delivered: u64,
    /// Why the lane has ended, if it has: no further packets arrive.
    pub ended: Option<Failure>,
}

impl Packet<'_> {
    /// The length of the whole packet.
    #[inline]
    pub fn total(&self) -> usize {
        self.head.len() + self.length
    }

    /// A packet that is shorter than it says would break the stream.
    #[inline]
    pub(crate) fn check(&self) {
        let body = match self.body {
            [only] => only.len(),
            body => body.iter().map(Slice::len).sum(),
        };
        let end = self.offset.checked_add(self.length);
        assert!(end.is_some_and(|end| end <= body), "a packet ends outside of its memory");
    }

    /// Appends the whole packet.
    pub(crate) fn copy_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.head);
        let (mut skip, mut left) = (self.offset, self.length);
        for slice in self.body {
            let from = skip.min(slice.len());
            let count = (slice.len() - from).min(left);
            let end = bytes.len();
            bytes.resize(end + count, 0);
            slice.region().memory().read(slice.offset() + from, &mut bytes[end..]);
            (skip, left) = (skip - from, left - count);
        }
    }
}

/// Which packets are accepted, and those that arrived when no receiver was there.
#[derive(Debug, Default)]
pub(crate) struct ReceivedPackets {
    /// The maximum length of a packet; 0: none is accepted.
    max_length: usize,
    arrived: Vec<Vec<u8>>,
}

impl ReceivedPackets {
    pub(crate) fn accept(&mut self, max_length: usize) {
        self.max_length = max_length;
    }

    /// Whether packets are accepted at all.
    #[inline]
    pub(crate) fn are_accepted(&self) -> bool {
        self.max_length > 0
    }

    #[inline]
    pub(crate) fn fits(&self, length: usize) -> bool {
        self.are_accepted() && length <= self.max_length
    }

    #[inline]
    pub(crate) fn push(&mut self, packet: Vec<u8>) {
        self.arrived.push(packet);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.arrived.is_empty()
    }

    /// Gives the packets to a receiver.
    #[inline]
    pub(crate) fn deliver(&mut self, receiver: &mut dyn PacketReceiver) {
        for packet in self.arrived.drain(..) {
            receiver.packet(&packet);
        }
    }

    /// The receiver of a poll without one; [`ReceivedPackets::put_queue`] must follow.
    #[inline]
    pub(crate) fn take_queue(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.arrived)
    }

    #[inline]
    pub(crate) fn put_queue(&mut self, queue: Vec<Vec<u8>>) {
        self.arrived = queue;
    }
}

/// Empty buffers for packets, to be filled again.
#[derive(Debug, Default)]
pub(crate) struct PacketBuffers(Vec<Vec<u8>>);

impl PacketBuffers {
    /// An empty buffer.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    #[inline]
    pub(crate) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < MAX_SPARE && buffer.capacity() <= MAX_SPARE_BYTES {
            buffer.clear();
            self.0.push(buffer);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Buffers that are kept, and the longest of them: at most half a mebibyte.
const MAX_SPARE: usize = 64;
const MAX_SPARE_BYTES: usize = 8 << 10;
