//! The messages of a link: outgoing, incoming, and the caller's receives.
//!
//! A message here is one packet of a lane, or one send if the lane has no packets: at most `max_payload` bytes and its header. A send of the caller is one message, or several
//! with a *fragment* of it each. (The ranges into which writes and reads are split are *chunks*: `operations/`.)
//!
//! There are two classes, each with its own sequence numbers in both directions. A message gets its number when it is
//! first sent: on whichever lanes and however often it arrives, it takes effect once and in order.
//!
//! | count | of | raised when | the peer learns it | decides |
//! |---|---|---|---|---|
//! | `MessageCounts::sent` | a lane | a message or credit is queued on it | no | `LaneOp::confirmed_at`: the first message queued with or after an operation |
//! | `MessageCounts::completed` | a lane | its send has completed | no | a peer that reports fewer as received ends the link |
//! | `MessageCounts::received` | a lane | a message or credit has arrived | in `Fenced` | which operations of the dead lane took effect |
//! | `Outgoing::next` | the link, by class | a message gets its number | as the `sequence` of its header | order and duplicates: `Incoming::next` |
//! | `Outgoing::oldest` | the link, by class | all messages before it are delivered | no | which messages are kept, to be sent again; the limit of internal ones |
//! | `Inbox::taken` | the link, `Caller` only | a message went to a receive, or was skipped | in every header, and `Freed` | at most 256 that are not taken: `Outgoing::may_send` |
//! | `MessageBuffers::sent` | a lane, by class | a message is written into a send buffer | no | with the next: the peer's free slots, `MessageBuffers::has_capacity` |
//! | `MessageBuffers::freed` | a lane, by class | the slot of a message is posted again; with a shared receive queue: the message is taken | in every header, and `Freed` | the same, at the peer: `freed_by_peer` |
//!
//! `MessageCounts` are in `rails/lane/mod.rs`; `Fenced` and `Freed` are control messages.

mod inbox;
mod incoming;
pub(super) mod message_buffers;
mod outgoing;
pub(super) mod sent_packets;

use self::inbox::Inbox;
use self::incoming::Incoming;
use self::outgoing::Outgoing;
use super::protocol::header::{Header, MessageClass};
use crate::op::Op;

pub(super) use self::inbox::{InboxMessage, InboxStep, PayloadLocation};
pub(super) use self::incoming::Arrival;
pub(super) use self::outgoing::{Delivered, Message, SentMessage, UnnumberedMessage};

pub(super) struct Messages {
    outgoing: [Outgoing; 2],
    incoming: [Incoming; 2],
    inbox: Inbox,
    /// The maximum payload of one message to the peer.
    peer_max_payload: u64,
}

impl Messages {
    pub(super) fn new(peer_max_payload: usize) -> Self {
        Messages {
            outgoing: [Outgoing::with_receives(), Outgoing::default()],
            incoming: Default::default(),
            inbox: Inbox::default(),
            peer_max_payload: peer_max_payload as u64,
        }
    }

    /// The maximum payload of one message to the peer.
    pub(super) fn peer_max_payload(&self) -> u64 {
        self.peer_max_payload
    }

    #[inline]
    pub(super) fn outgoing(&self, class: MessageClass) -> &Outgoing {
        &self.outgoing[class as usize]
    }

    #[inline]
    pub(super) fn outgoing_mut(&mut self, class: MessageClass) -> &mut Outgoing {
        &mut self.outgoing[class as usize]
    }

    /// The messages to the peer's caller, and those to ours.
    #[inline]
    pub(super) fn for_callers(&mut self) -> (&mut Outgoing, &mut Inbox) {
        (&mut self.outgoing[MessageClass::Caller as usize], &mut self.inbox)
    }

    /// Adds a message to its class.
    pub(super) fn push(&mut self, message: UnnumberedMessage) {
        self.outgoing_mut(message.class()).push(message);
    }

    /// Whether more answers wait to be sent than a peer can have requested.
    pub(super) fn has_too_many_answers(&self) -> bool {
        self.outgoing(MessageClass::Internal).unnumbered() > MAX_ANSWERS
    }

    /// Drops all outgoing messages; returns the sends that consist of one.
    pub(super) fn stop_sending(&mut self) -> impl Iterator<Item = Op> {
        let [callers, _] = std::mem::take(&mut self.outgoing);
        callers.into_sends()
    }

    /// A message of the peer has arrived.
    #[inline]
    pub(super) fn arrival(&mut self, header: &Header) -> Arrival {
        self.incoming[header.body.class() as usize].arrival(header.sequence)
    }

    /// Whether a message for the caller is the next one, and no early one waits for it. [`Messages::advance_caller`] follows if it is
    /// received.
    #[inline]
    pub(super) fn is_next_for_caller(&self, header: &Header) -> bool {
        header.body.class() == MessageClass::Caller
            && self.incoming[MessageClass::Caller as usize].is_next(header.sequence)
    }

    #[inline]
    pub(super) fn advance_caller(&mut self) {
        self.incoming[MessageClass::Caller as usize].advance();
    }

    /// Stores an early message; `false`: the peer has sent more untaken messages than allowed.
    pub(super) fn keep(&mut self, header: Header, payload: Vec<u8>) -> bool {
        let incoming = &mut self.incoming[header.body.class() as usize];
        incoming.keep(header, payload);
        incoming.early() + self.inbox.copied() <= MAX_COPIED
    }

    /// Whether more messages wait for receives than a peer can have sent.
    #[inline]
    pub(super) fn has_too_many_untaken(&self) -> bool {
        self.inbox.waiting() > MAX_COPIED
    }

    /// The next message of a class, if it arrived early.
    pub(super) fn next_early(&mut self, class: MessageClass) -> Option<(Header, Vec<u8>)> {
        self.incoming[class as usize].next_early()
    }

    #[inline]
    pub(super) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    #[inline]
    pub(super) fn inbox_mut(&mut self) -> &mut Inbox {
        &mut self.inbox
    }

    #[cfg(test)]
    pub(super) fn describe(&self) -> String {
        let Messages { outgoing, incoming, inbox, .. } = self;
        format!("outgoing {outgoing:?}\n  incoming {incoming:?}\n  {inbox:?}")
    }
}

/// The maximum number of copied messages: more than may be in flight and not taken.
const MAX_COPIED: usize = 2 * outgoing::MAX_UNTAKEN_MESSAGES as usize;
/// The maximum number of answers that wait to be sent: the maximum number of operations of a link.
const MAX_ANSWERS: usize = 1 << 16;
