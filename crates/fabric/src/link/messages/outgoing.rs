//! Outgoing messages of one class: in order, numbered when they are first sent, and sent again with the
//! same number when a lane has lost them.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use crate::link::protocol::header::{Body, MessageClass};
use crate::op::Op;

/// A message with a sequence number.
#[derive(Debug, Clone, Copy)]
pub(in crate::link) struct Message {
    pub(in crate::link) body: Body,
    /// The row of the operation it belongs to, and the number of its bytes in the payload.
    pub(in crate::link) operation: Option<u32>,
    pub(in crate::link) payload: u64,
}

/// A message that was sent, or is to be sent again, until it is delivered.
#[derive(Debug)]
pub(in crate::link) enum SentMessage {
    Delivered,
    /// Of an operation with a row, or of none.
    Part(Message),
    /// All of a send, which has no row.
    Send(Op),
}

/// What belongs to a message that was delivered.
pub(in crate::link) enum Delivered {
    Nothing,
    /// The row of its operation.
    Part(u32),
    /// The send that it was, and when it was posted, if it is timed.
    Send(Op, Option<Instant>),
}

impl Message {
    /// Empties the message; its sequence number must still be delivered.
    pub(in crate::link) fn void(&mut self) {
        (self.body, self.payload) = (Body::Void, 0);
    }
}

/// A message without a sequence number yet, by the row of its operation.
#[derive(Debug, Clone, Copy)]
pub(in crate::link) enum UnnumberedMessage {
    /// The fragments of a send: one message each.
    Send(u32),
    /// The immediate data of a write.
    WriteImm(u32),
    /// The request of an atomic operation.
    Atomic(u32),
    /// The answer to an atomic operation of the peer.
    OldValue { request: u32, old: Option<u64> },
}

impl UnnumberedMessage {
    pub(super) fn class(self) -> MessageClass {
        match self {
            UnnumberedMessage::Send(_) | UnnumberedMessage::WriteImm(_) => MessageClass::Caller,
            UnnumberedMessage::Atomic(_) | UnnumberedMessage::OldValue { .. } => {
                MessageClass::Internal
            }
        }
    }
}

#[derive(Debug, Default)]
pub(in crate::link) struct Outgoing {
    unnumbered: VecDeque<UnnumberedMessage>,
    /// Sequence numbers of messages to be sent again.
    resends: BTreeSet<u64>,
    /// Sent messages, starting with the oldest undelivered one.
    sent: VecDeque<SentMessage>,
    oldest: u64,
    /// The send without a row that is timed, and when it was posted.
    timed: Option<(u64, Instant)>,
    /// The number of messages taken by the peer's caller; for internal messages, which wait for no caller, the number
    /// delivered.
    taken: u64,
    waits_for_receives: bool,
}

impl Outgoing {
    /// For messages that wait for receives of the peer's caller.
    pub(in crate::link) fn with_receives() -> Self {
        Outgoing { waits_for_receives: true, ..Outgoing::default() }
    }

    #[inline]
    pub(in crate::link) fn is_empty(&self) -> bool {
        self.unnumbered.is_empty() && self.resends.is_empty()
    }

    pub(in crate::link) fn push(&mut self, message: UnnumberedMessage) {
        self.unnumbered.push_back(message);
    }

    pub(in crate::link) fn queue_resend(&mut self, sequence: u64) {
        self.resends.insert(sequence);
    }

    #[inline]
    pub(in crate::link) fn next_resend(&mut self) -> Option<u64> {
        self.resends.pop_first()
    }

    pub(in crate::link) fn message(&self) -> Option<UnnumberedMessage> {
        self.unnumbered.front().copied()
    }

    pub(in crate::link) fn pop_unnumbered(&mut self) {
        self.unnumbered.pop_front();
    }

    /// Whether one more message may be sent: the peer stores early messages up to a limit.
    #[inline]
    pub(in crate::link) fn may_send(&self) -> bool {
        self.next() < self.taken + MAX_UNTAKEN_MESSAGES
    }

    /// The next sequence number.
    #[inline]
    pub(in crate::link) fn next(&self) -> u64 {
        self.oldest + self.sent.len() as u64
    }

    /// Updates the number of messages taken by the peer's caller, from its lower bits; `false` if it is
    /// invalid.
    pub(in crate::link) fn taken(&mut self, count: u32) -> bool {
        let more = u64::from(count.wrapping_sub(self.taken as u32));
        if more <= self.next() - self.taken {
            self.taken += more;
            return true;
        }
        // An older count, from a slower rail.
        (self.taken as u32).wrapping_sub(count) <= u32::from(u16::MAX)
    }

    /// The next message is a send without a row that is to be timed, if no other is.
    pub(in crate::link) fn time_next(&mut self, started: Instant) {
        let sequence = self.next();
        self.timed.get_or_insert((sequence, started));
    }

    /// Assigns a sequence number to a message.
    #[inline]
    pub(in crate::link) fn assign_number(&mut self, message: SentMessage) -> u64 {
        self.sent.push_back(message);
        self.next() - 1
    }

    fn entry(&mut self, sequence: u64) -> Option<&mut SentMessage> {
        let at = usize::try_from(sequence.checked_sub(self.oldest)?).ok()?;
        self.sent.get_mut(at)
    }

    /// A part that was sent and is not delivered.
    pub(in crate::link) fn sent_message(&mut self, sequence: u64) -> Option<&mut Message> {
        match self.entry(sequence)? {
            SentMessage::Part(message) => Some(message),
            SentMessage::Delivered | SentMessage::Send(_) => None,
        }
    }

    /// Takes out a send that is not delivered, if this message is all of one. [`Outgoing::replace`] must follow.
    pub(in crate::link) fn take_send(&mut self, sequence: u64) -> Option<(Op, Option<Instant>)> {
        let entry = self.entry(sequence).filter(|entry| matches!(entry, SentMessage::Send(_)))?;
        match std::mem::replace(entry, SentMessage::Delivered) {
            SentMessage::Send(op) => Some((op, self.take_time(sequence))),
            _ => None,
        }
    }

    /// Replaces a send by its message.
    pub(in crate::link) fn replace(&mut self, sequence: u64, message: Message) {
        if let Some(entry) = self.entry(sequence) {
            *entry = SentMessage::Part(message);
        }
    }

    #[inline]
    fn take_time(&mut self, sequence: u64) -> Option<Instant> {
        self.timed.take_if(|(timed, _)| *timed == sequence).map(|(_, started)| started)
    }

    /// As [`Outgoing::delivered`], if the message is the oldest, and all of a send: the usual case. Otherwise nothing is changed.
    #[inline]
    pub(in crate::link) fn oldest_send_delivered(
        &mut self,
        sequence: u64,
    ) -> Option<(Op, Option<Instant>)> {
        let Some(SentMessage::Send(_)) = self.sent.front().filter(|_| sequence == self.oldest)
        else {
            return None;
        };
        let Some(SentMessage::Send(send)) = self.sent.pop_front() else { return None };
        self.oldest += 1;
        self.drop_delivered();
        Some((send, self.take_time(sequence)))
    }

    /// A message was delivered.
    pub(in crate::link) fn delivered(&mut self, sequence: u64) -> Delivered {
        let message = if sequence == self.oldest {
            let oldest = self.sent.pop_front();
            self.oldest += u64::from(oldest.is_some());
            self.drop_delivered();
            oldest
        } else {
            self.entry(sequence).map(|entry| std::mem::replace(entry, SentMessage::Delivered))
        };
        if !self.waits_for_receives {
            self.taken = self.oldest;
        }
        match message {
            Some(SentMessage::Send(op)) => Delivered::Send(op, self.take_time(sequence)),
            Some(SentMessage::Part(Message { operation: Some(row), .. })) => Delivered::Part(row),
            _ => Delivered::Nothing,
        }
    }

    #[inline]
    fn drop_delivered(&mut self) {
        while let Some(SentMessage::Delivered) = self.sent.front() {
            self.sent.pop_front();
            self.oldest += 1;
        }
    }

    /// The sends without a row that are not delivered.
    pub(in crate::link) fn into_sends(self) -> impl Iterator<Item = Op> {
        self.sent.into_iter().filter_map(|message| match message {
            SentMessage::Send(op) => Some(op),
            _ => None,
        })
    }

    /// Messages without a sequence number.
    pub(in crate::link) fn unnumbered(&self) -> usize {
        self.unnumbered.len()
    }
}

/// The maximum number of messages that the peer's caller has not taken: in flight, or waiting for its receives.
pub(in crate::link) const MAX_UNTAKEN_MESSAGES: u64 = 256;
