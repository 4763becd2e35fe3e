//! The messages of a link: those to send, those that came, and the caller's receives.
//!
//! There are two streams, each with numbers of its own in both directions. A message has its number from when it is first
//! sent, and keeps it: whatever lanes bring it, and however often, it takes effect once and in order.

mod inbox;
mod incoming;
pub(super) mod message_queue;
mod outgoing;

use self::inbox::Inbox;
use self::incoming::Incoming;
use self::outgoing::Outgoing;
use super::protocol::header::{Header, Stream};

pub(super) use self::inbox::{InboxMessage, Place, Step};
pub(super) use self::incoming::Turn;
pub(super) use self::outgoing::{Draft, Message};

pub(super) struct Messages {
    outgoing: [Outgoing; 2],
    incoming: [Incoming; 2],
    inbox: Inbox,
    /// The payload of one message that the peer takes.
    peer_limit: u64,
}

impl Messages {
    pub(super) fn new(peer_limit: usize) -> Self {
        Messages {
            outgoing: [Outgoing::waiting(), Outgoing::default()],
            incoming: Default::default(),
            inbox: Inbox::default(),
            peer_limit: peer_limit as u64,
        }
    }

    /// The payload of one message that the peer takes.
    pub(super) fn peer_limit(&self) -> u64 {
        self.peer_limit
    }

    #[inline]
    pub(super) fn outgoing(&self, stream: Stream) -> &Outgoing {
        &self.outgoing[stream as usize]
    }

    #[inline]
    pub(super) fn outgoing_mut(&mut self, stream: Stream) -> &mut Outgoing {
        &mut self.outgoing[stream as usize]
    }

    /// Adds a message to its stream.
    pub(super) fn push(&mut self, draft: Draft) {
        self.outgoing_mut(draft.stream()).push(draft);
    }

    /// Whether so many answers wait for room at the peer that it has asked for more than a link does.
    pub(super) fn has_too_many_answers(&self) -> bool {
        self.outgoing(Stream::Control).drafts() > MAX_ANSWERS
    }

    /// Nothing more is sent.
    pub(super) fn stop_sending(&mut self) {
        self.outgoing = Default::default();
    }

    /// A message of the peer's came.
    #[inline]
    pub(super) fn turn(&mut self, header: &Header) -> Turn {
        self.incoming[header.body.stream() as usize].turn(header.sequence)
    }

    /// Keeps one that came before its turn; `false`: the peer has sent more than it may before it is taken.
    pub(super) fn keep(&mut self, header: Header, payload: Vec<u8>) -> bool {
        let incoming = &mut self.incoming[header.body.stream() as usize];
        incoming.keep(header, payload);
        incoming.early() + self.inbox.kept() <= MAX_KEPT
    }

    /// One that came early and is next now.
    pub(super) fn next_early(&mut self, stream: Stream) -> Option<(Header, Vec<u8>)> {
        self.incoming[stream as usize].next_early()
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

/// Messages that may wait in memory of their own: as many as may be on their way and not taken.
const MAX_KEPT: usize = 2 * outgoing::WINDOW as usize;
/// Answers that may wait for room at a peer that asks: more than a link has operations.
const MAX_ANSWERS: usize = 1 << 16;
