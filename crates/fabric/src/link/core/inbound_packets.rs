//! Packets of a lane, while it is polled: a message that is the next one, and for which a receive waits, is copied there directly.
//! Others are kept until the lane was polled.

use super::completion_queue::CompletionQueue;
use super::receive::copy_bytes;
use crate::link::messages::Messages;
use crate::link::protocol::header::{Header, MessageClass};
use crate::packets::{PacketBuffers, PacketReceiver};

pub(super) struct InboundPackets<'c> {
    messages: &'c mut Messages,
    completions: &'c mut CompletionQueue,
    kept: &'c mut KeptPackets,
}

/// Packets that are handled after a poll, in order, and buffers for the next ones.
#[derive(Default)]
pub(super) struct KeptPackets {
    pub(super) arrived: Vec<Vec<u8>>,
    pub(super) buffers: PacketBuffers,
}

impl<'c> InboundPackets<'c> {
    #[inline]
    pub(super) fn new(
        messages: &'c mut Messages,
        completions: &'c mut CompletionQueue,
        kept: &'c mut KeptPackets,
    ) -> Self {
        InboundPackets { messages, completions, kept }
    }

    /// Completes a receive with a packet; `false`: it is not that simple, and the packet is still to be handled.
    #[inline]
    fn receive(&mut self, bytes: &[u8]) -> bool {
        let Some((header, begin)) = Header::of_message(bytes) else { return false };
        let payload = &bytes[begin..];
        if !self.messages.is_next_for_caller(&header)
            || !self.messages.outgoing_mut(MessageClass::Caller).taken(header.taken)
        {
            return false;
        }
        let inbox = self.messages.inbox_mut();
        let Some((receive, done)) = inbox.take_immediately(header.body, payload.len() as u64)
        else {
            return false;
        };
        self.messages.advance_caller();
        copy_bytes(payload, receive.work.local(), 0);
        self.completions.finish(receive, Ok(done));
        true
    }
}

impl PacketReceiver for InboundPackets<'_> {
    #[inline]
    fn packet(&mut self, bytes: &[u8]) {
        if self.kept.arrived.is_empty() && self.receive(bytes) {
            return;
        }
        let mut copy = self.kept.buffers.take();
        copy.extend_from_slice(bytes);
        self.kept.arrived.push(copy);
    }
}
