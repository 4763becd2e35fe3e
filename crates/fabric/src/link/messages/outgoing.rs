//! Messages of one stream on their way out: in order, numbered when they first go, and again with the
//! same number when a lane has lost them.

use std::collections::{BTreeSet, VecDeque};

use crate::link::protocol::header::{Body, Stream};

/// A message that has its number.
#[derive(Debug, Clone, Copy)]
pub(in crate::link) struct Message {
    pub(in crate::link) body: Body,
    /// The operation it belongs to, and how many bytes of it are its payload.
    pub(in crate::link) operation: Option<u32>,
    pub(in crate::link) payload: u64,
}

impl Message {
    /// It means nothing any more, but its place in the stream must be used up all the same.
    pub(in crate::link) fn void(&mut self) {
        (self.body, self.payload) = (Body::Void, 0);
    }
}

/// A message to be.
#[derive(Debug, Clone, Copy)]
pub(in crate::link) enum Draft {
    /// The parts of a send, one after the other.
    Send(u32),
    /// The immediate data of a write.
    Notice(u32),
    /// An atomic operation's request.
    Change(u32),
    /// What we answer to the peer's.
    Old { request: u32, old: Option<u64> },
}

impl Draft {
    pub(super) fn stream(self) -> Stream {
        match self {
            Draft::Send(_) | Draft::Notice(_) => Stream::Messages,
            Draft::Change(_) | Draft::Old { .. } => Stream::Control,
        }
    }
}

#[derive(Debug, Default)]
pub(in crate::link) struct Outgoing {
    drafts: VecDeque<Draft>,
    /// To be sent again, by number.
    again: BTreeSet<u64>,
    /// Those sent, from the oldest that has not arrived on; none in place of those that have.
    sent: VecDeque<Option<Message>>,
    oldest: u64,
    /// How many the peer's caller has taken. Control messages wait for no caller: all that arrived.
    taken: u64,
    waits: bool,
}

impl Outgoing {
    /// Messages that wait for receives of the peer's caller.
    pub(in crate::link) fn waiting() -> Self {
        Outgoing { waits: true, ..Outgoing::default() }
    }

    #[inline]
    pub(in crate::link) fn is_empty(&self) -> bool {
        self.drafts.is_empty() && self.again.is_empty()
    }

    pub(in crate::link) fn push(&mut self, draft: Draft) {
        self.drafts.push_back(draft);
    }

    pub(in crate::link) fn send_again(&mut self, sequence: u64) {
        self.again.insert(sequence);
    }

    #[inline]
    pub(in crate::link) fn next_again(&mut self) -> Option<u64> {
        self.again.pop_first()
    }

    pub(in crate::link) fn draft(&self) -> Option<Draft> {
        self.drafts.front().copied()
    }

    pub(in crate::link) fn drop_draft(&mut self) {
        self.drafts.pop_front();
    }

    /// Whether one more may have a number: the peer keeps what comes early, and not without limit.
    #[inline]
    pub(in crate::link) fn may_number(&self) -> bool {
        self.next() < self.taken + WINDOW
    }

    fn next(&self) -> u64 {
        self.oldest + self.sent.len() as u64
    }

    /// The peer's caller has taken so many so far, by the lower bits of their number; `false` if that
    /// cannot be.
    pub(in crate::link) fn taken(&mut self, count: u32) -> bool {
        let more = u64::from(count.wrapping_sub(self.taken as u32));
        if more <= self.next() - self.taken {
            self.taken += more;
            return true;
        }
        // An older report, which a slower rail brings.
        (self.taken as u32).wrapping_sub(count) <= u32::from(u16::MAX)
    }

    /// Gives a message its number.
    pub(in crate::link) fn number(&mut self, message: Message) -> u64 {
        self.sent.push_back(Some(message));
        self.next() - 1
    }

    /// One that was sent and has not arrived.
    pub(in crate::link) fn sent(&mut self, sequence: u64) -> Option<&mut Message> {
        let at = usize::try_from(sequence.checked_sub(self.oldest)?).ok()?;
        self.sent.get_mut(at)?.as_mut()
    }

    /// One has arrived: whose it is.
    pub(in crate::link) fn arrived(&mut self, sequence: u64) -> Option<u32> {
        let at = usize::try_from(sequence.checked_sub(self.oldest)?).ok()?;
        let message = self.sent.get_mut(at)?.take();
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.oldest += 1;
        }
        if !self.waits {
            self.taken = self.oldest;
        }
        message?.operation
    }

    /// How many drafts wait.
    pub(in crate::link) fn drafts(&self) -> usize {
        self.drafts.len()
    }
}

/// How many messages may be in flight, or wait for receives at the peer.
pub(in crate::link) const WINDOW: u64 = 256;
