//! The messages of one lane that has packets: neither slots nor credits, since the lane's stream holds back what does not fit.

use std::collections::VecDeque;

use crate::link::operations::LaneOpKind;

/// Messages that were sent as packets, in order, until they are delivered.
#[derive(Default)]
pub(in crate::link) struct SentPackets {
    undelivered: VecDeque<SentPacket>,
    /// The number of delivered ones, as last reported by the lane.
    delivered: u64,
}

/// A message that was sent as a packet.
pub(in crate::link) struct SentPacket {
    pub(in crate::link) what: LaneOpKind,
    pub(in crate::link) bytes: u64,
    /// As in [`LaneOp`](crate::link::operations::LaneOp).
    pub(in crate::link) confirmed_at: u64,
}

impl SentPackets {
    #[inline]
    pub(in crate::link) fn push(&mut self, packet: SentPacket) {
        self.undelivered.push_back(packet);
    }

    /// The number of delivered packets that were taken.
    #[inline]
    pub(in crate::link) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The next packet that was delivered, if `delivered` are in all.
    #[inline]
    pub(in crate::link) fn next_delivered(&mut self, delivered: u64) -> Option<SentPacket> {
        if self.delivered == delivered {
            return None;
        }
        self.delivered += 1;
        self.undelivered.pop_front()
    }

    /// The next packet of which it is not known whether it was delivered, once the lane has ended.
    pub(in crate::link) fn next_undelivered(&mut self) -> Option<SentPacket> {
        self.undelivered.pop_front()
    }

    /// Whether one more may be sent.
    #[inline]
    pub(in crate::link) fn has_capacity(&self) -> bool {
        self.undelivered.len() < MAX_UNDELIVERED
    }
}

/// The maximum number of packets of one lane in flight: what the stream does not take is copied.
const MAX_UNDELIVERED: usize = 256;
