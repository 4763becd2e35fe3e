//! Messages that came in their turn, and the caller's receives: each message takes the next receive.

use std::collections::VecDeque;

use super::message_queue::Payload;
use crate::link::protocol::header::Body;
use crate::op::{Done, Failure, Op};

#[derive(Debug, Default)]
pub(in crate::link) struct Inbox {
    receives: VecDeque<Op>,
    messages: VecDeque<InboxMessage>,
    /// How much of a message in parts the first receive has.
    filled: u64,
    /// Whether the rest of a message that will never be whole is left out.
    skipping: bool,
    /// How many messages were taken, and of how many the peer knows.
    taken: u32,
    reported: u32,
}

/// A message, or a part of one.
#[derive(Debug)]
pub(in crate::link) struct InboxMessage {
    pub(in crate::link) body: Body,
    pub(in crate::link) place: Place,
}

/// Where its payload is.
#[derive(Debug)]
pub(in crate::link) enum Place {
    /// In a slot of a rail's messages: these bytes of it.
    Slot { rail: u8, slot: u32, payload: Payload },
    /// Copied.
    Kept(Vec<u8>),
}

impl Place {
    pub(in crate::link) fn length(&self) -> u64 {
        match self {
            Place::Slot { payload, .. } => payload.length as u64,
            Place::Kept(bytes) => bytes.len() as u64,
        }
    }
}

/// What to do next.
pub(in crate::link) enum Step {
    Nothing,
    /// The first message's payload goes into the first receive, from here on. [`Inbox::filled`]
    /// must follow.
    Fill {
        from: u64,
    },
    /// A receive is over; a message too, if it is given.
    Over(Op, Result<Done, Failure>, Option<InboxMessage>),
    /// This message means nothing any more.
    Skip(InboxMessage),
    ProtocolError,
}

impl Inbox {
    /// How many messages were taken so far: that is reported to the peer.
    pub(in crate::link) fn report_taken(&mut self) -> u32 {
        self.reported = self.taken;
        self.taken
    }

    /// What reported it may be lost: it is reported again.
    pub(in crate::link) fn report_again(&mut self) {
        self.reported = self.taken.wrapping_sub(REPORT);
    }

    /// Whether the peer should know that messages were taken, even by a message of its own.
    #[inline]
    pub(in crate::link) fn owes_report(&self) -> bool {
        self.taken.wrapping_sub(self.reported) >= REPORT
    }

    /// How many messages wait in memory of their own.
    pub(in crate::link) fn kept(&self) -> usize {
        self.messages.iter().filter(|message| matches!(message.place, Place::Kept(_))).count()
    }

    pub(in crate::link) fn receives(&self) -> usize {
        self.receives.len()
    }

    pub(in crate::link) fn post(&mut self, op: Op) {
        self.receives.push_back(op);
    }

    pub(in crate::link) fn push(&mut self, message: InboxMessage) {
        self.messages.push_back(message);
    }

    pub(in crate::link) fn first(&self) -> Option<(&Op, &InboxMessage)> {
        Some((self.receives.front()?, self.messages.front()?))
    }

    /// The usual case: a message that is whole and finds nothing before it, and a receive with room for it.
    #[inline]
    pub(in crate::link) fn take_at_once(&mut self, body: Body, payload: u64) -> Option<(Op, Done)> {
        let (length, imm, room) = match body {
            Body::Notice { length, imm } => (length, Some(imm), 0),
            Body::Part { total, offset: 0, imm } if total == payload => (total, imm, total),
            _ => return None,
        };
        let fits = room <= self.receives.front()?.work.total() as u64;
        if !fits || !self.messages.is_empty() || self.filled > 0 {
            return None;
        }
        self.skipping = false;
        self.taken = self.taken.wrapping_add(1);
        Some((self.receives.pop_front()?, Done::Received { length: length as usize, imm }))
    }

    /// Whether a message finds a receive.
    #[inline]
    pub(in crate::link) fn step(&mut self) -> Step {
        match self.messages.front().map(|message| message.body) {
            None => return Step::Nothing,
            Some(Body::Void) => {
                (self.skipping, self.filled) = (true, 0);
                return self.skip();
            }
            Some(Body::Part { offset, .. }) if self.skipping && offset > 0 => return self.skip(),
            Some(_) => self.skipping = false,
        }
        let (Some(receive), Some(message)) = (self.receives.front(), self.messages.front()) else {
            return Step::Nothing;
        };
        match message.body {
            Body::Notice { length, imm } if self.filled == 0 => {
                let done = Done::Received { length: length as usize, imm: Some(imm) };
                self.over(Ok(done))
            }
            // It waits for a receive with room: nothing that was acknowledged is lost.
            Body::Part { total, offset: 0, .. } if total > receive.work.total() as u64 => {
                match self.receives.pop_front() {
                    Some(receive) => Step::Over(receive, Err(Failure::TooLong), None),
                    None => Step::Nothing,
                }
            }
            Body::Part { offset, .. } if offset == self.filled => Step::Fill { from: offset },
            _ => Step::ProtocolError,
        }
    }

    /// The first message's bytes are in the first receive.
    pub(in crate::link) fn filled(&mut self, bytes: u64) -> Step {
        let Some(Body::Part { total, imm, .. }) = self.messages.front().map(|message| message.body)
        else {
            return Step::ProtocolError;
        };
        self.filled += bytes;
        if self.filled < total && bytes > 0 {
            return Step::Nothing;
        }
        if self.filled != total {
            return Step::ProtocolError;
        }
        self.filled = 0;
        self.over(Ok(Done::Received { length: total as usize, imm }))
    }

    fn skip(&mut self) -> Step {
        self.pop_message().map_or(Step::Nothing, Step::Skip)
    }

    /// The first message, when it is taken.
    pub(in crate::link) fn pop_message(&mut self) -> Option<InboxMessage> {
        self.taken = self.taken.wrapping_add(1);
        self.messages.pop_front()
    }

    fn over(&mut self, outcome: Result<Done, Failure>) -> Step {
        match self.receives.pop_front() {
            Some(receive) => Step::Over(receive, outcome, self.pop_message()),
            None => Step::Nothing,
        }
    }

    /// Messages whose slots are about to go.
    pub(in crate::link) fn evacuate(&mut self, rail: u8, copy: impl Fn(u32, Payload) -> Vec<u8>) {
        for message in &mut self.messages {
            if let Place::Slot { rail: of, slot, payload } = message.place
                && of == rail
            {
                message.place = Place::Kept(copy(slot, payload));
            }
        }
    }

    /// The receives that no message will come for.
    pub(in crate::link) fn take_receives(&mut self) -> VecDeque<Op> {
        self.filled = 0;
        std::mem::take(&mut self.receives)
    }

    /// Whether there is something to receive.
    pub(in crate::link) fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    pub(in crate::link) fn throw_away(&mut self) {
        self.messages.clear();
    }
}

/// So many taken messages are worth a message: a quarter of what may wait.
const REPORT: u32 = super::outgoing::WINDOW as u32 / 4;
