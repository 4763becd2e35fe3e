//! Messages in order, and the caller's receives: each message takes the next receive.

use std::collections::VecDeque;

use super::message_buffers::Payload;
use crate::link::protocol::header::Body;
use crate::op::{Done, Failure, Op};

#[derive(Debug, Default)]
pub(in crate::link) struct Inbox {
    receives: VecDeque<Op>,
    messages: VecDeque<InboxMessage>,
    /// The number of bytes of a partial message in the first receive.
    filled: u64,
    /// Whether further fragments of an abandoned message are skipped.
    skipping: bool,
    /// The number of messages taken, and the number last reported to the peer.
    taken: u32,
    reported: u32,
}

/// A message, or a fragment of one.
#[derive(Debug)]
pub(in crate::link) struct InboxMessage {
    pub(in crate::link) body: Body,
    pub(in crate::link) location: PayloadLocation,
}

/// The location of a payload.
#[derive(Debug)]
pub(in crate::link) enum PayloadLocation {
    /// In a receive slot of a rail.
    Slot { rail: u8, slot: u32, payload: Payload },
    /// In a copy, from this byte on.
    Copied { bytes: Vec<u8>, begin: usize },
    /// Copied out of a slot of a rail, whose peer waits for the credit.
    CopiedFrom { rail: u8, bytes: Vec<u8> },
}

impl PayloadLocation {
    pub(in crate::link) fn length(&self) -> u64 {
        match self {
            PayloadLocation::Slot { payload, .. } => payload.length as u64,
            PayloadLocation::Copied { bytes, begin } => (bytes.len() - begin) as u64,
            PayloadLocation::CopiedFrom { bytes, .. } => bytes.len() as u64,
        }
    }
}

/// The next step of matching messages with receives.
pub(in crate::link) enum InboxStep {
    Nothing,
    /// Copy the first message's payload into the first receive at this offset. [`Inbox::filled`]
    /// must follow.
    Fill {
        from: u64,
    },
    /// A receive has completed, and the message with it, if there is one.
    Complete(Op, Result<Done, Failure>, Option<InboxMessage>),
    /// This message is to be ignored.
    Skip(InboxMessage),
    ProtocolError,
}

impl Inbox {
    /// The number of messages taken so far, which counts as reported to the peer.
    pub(in crate::link) fn report_taken(&mut self) -> u32 {
        self.reported = self.taken;
        self.taken
    }

    /// The last report may be lost: report again.
    pub(in crate::link) fn repeat_report(&mut self) {
        self.reported = self.taken.wrapping_sub(REPORT_THRESHOLD);
    }

    /// Whether enough messages were taken since the last report to send one.
    #[inline]
    pub(in crate::link) fn is_report_due(&self) -> bool {
        self.taken.wrapping_sub(self.reported) >= REPORT_THRESHOLD
    }

    /// The number of waiting messages that were copied out of their slots.
    pub(in crate::link) fn copied(&self) -> usize {
        self.messages
            .iter()
            .filter(|message| matches!(message.location, PayloadLocation::Copied { .. }))
            .count()
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

    /// The fast path: a complete message with none before it, and a receive that is long enough.
    #[inline]
    pub(in crate::link) fn take_immediately(
        &mut self,
        body: Body,
        payload: u64,
    ) -> Option<(Op, Done)> {
        let (length, imm, needed) = match body {
            Body::WriteImm { length, imm } => (length, Some(imm), 0),
            Body::Fragment { total, offset: 0, imm } if total == payload => (total, imm, total),
            _ => return None,
        };
        let fits = needed <= self.receives.front()?.work.total() as u64;
        if !fits || !self.messages.is_empty() || self.filled > 0 {
            return None;
        }
        self.skipping = false;
        self.taken = self.taken.wrapping_add(1);
        Some((self.receives.pop_front()?, Done::Received { length: length as usize, imm }))
    }

    /// What to do with the first message and the first receive.
    #[inline]
    pub(in crate::link) fn step(&mut self) -> InboxStep {
        match self.messages.front().map(|message| message.body) {
            None => return InboxStep::Nothing,
            Some(Body::Void) => {
                (self.skipping, self.filled) = (true, 0);
                return self.skip();
            }
            Some(Body::Fragment { offset, .. }) if self.skipping && offset > 0 => {
                return self.skip();
            }
            Some(_) => self.skipping = false,
        }
        let (Some(receive), Some(message)) = (self.receives.front(), self.messages.front()) else {
            return InboxStep::Nothing;
        };
        match message.body {
            Body::WriteImm { length, imm } if self.filled == 0 => {
                let done = Done::Received { length: length as usize, imm: Some(imm) };
                self.complete(Ok(done))
            }
            // The message waits for a longer receive: it was acknowledged and must not be lost.
            Body::Fragment { total, offset: 0, .. } if total > receive.work.total() as u64 => {
                match self.receives.pop_front() {
                    Some(receive) => InboxStep::Complete(receive, Err(Failure::TooLong), None),
                    None => InboxStep::Nothing,
                }
            }
            Body::Fragment { offset, .. } if offset == self.filled => {
                InboxStep::Fill { from: offset }
            }
            _ => InboxStep::ProtocolError,
        }
    }

    /// This number of bytes of the first message was copied into the first receive.
    pub(in crate::link) fn filled(&mut self, bytes: u64) -> InboxStep {
        let Some(Body::Fragment { total, imm, .. }) =
            self.messages.front().map(|message| message.body)
        else {
            return InboxStep::ProtocolError;
        };
        self.filled += bytes;
        if self.filled < total && bytes > 0 {
            return InboxStep::Nothing;
        }
        if self.filled != total {
            return InboxStep::ProtocolError;
        }
        self.filled = 0;
        self.complete(Ok(Done::Received { length: total as usize, imm }))
    }

    fn skip(&mut self) -> InboxStep {
        self.pop_message().map_or(InboxStep::Nothing, InboxStep::Skip)
    }

    /// Takes the first message.
    pub(in crate::link) fn pop_message(&mut self) -> Option<InboxMessage> {
        self.taken = self.taken.wrapping_add(1);
        self.messages.pop_front()
    }

    fn complete(&mut self, outcome: Result<Done, Failure>) -> InboxStep {
        match self.receives.pop_front() {
            Some(receive) => InboxStep::Complete(receive, outcome, self.pop_message()),
            None => InboxStep::Nothing,
        }
    }

    /// Copies messages out of the slots of a rail, before these are freed; its credits end with it.
    pub(in crate::link) fn copy_out_of_slots(
        &mut self,
        rail: u8,
        copy: impl Fn(u32, Payload) -> Vec<u8>,
    ) {
        for message in &mut self.messages {
            let bytes = match &mut message.location {
                PayloadLocation::Slot { rail: of, slot, payload } if *of == rail => {
                    copy(*slot, *payload)
                }
                PayloadLocation::CopiedFrom { rail: of, bytes } if *of == rail => {
                    std::mem::take(bytes)
                }
                _ => continue,
            };
            message.location = PayloadLocation::Copied { bytes, begin: 0 };
        }
    }

    /// Takes all receives, when no further message will arrive.
    pub(in crate::link) fn take_receives(&mut self) -> VecDeque<Op> {
        self.filled = 0;
        std::mem::take(&mut self.receives)
    }

    /// The number of waiting messages.
    #[inline]
    pub(in crate::link) fn waiting(&self) -> usize {
        self.messages.len()
    }

    /// Whether messages wait.
    pub(in crate::link) fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    pub(in crate::link) fn discard_messages(&mut self) {
        self.messages.clear();
    }
}

/// The number of taken messages that triggers a report: a quarter of the limit.
const REPORT_THRESHOLD: u32 = super::outgoing::MAX_UNTAKEN_MESSAGES as u32 / 4;
