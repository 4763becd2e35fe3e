//! Incoming messages and posted receives: the oldest message is delivered to the oldest receive.
//!
//! The sender numbers the messages, so that they may arrive in any order and in fragments. A fragment that arrives before
//! its receive stays in its slot, or with its sender; the sender has no more frames in flight than there are slots.

use std::collections::VecDeque;

use super::endpoint::Remote;
use super::fetches::{Fetch, Fetches};
use super::slots::Slots;
use crate::completion_sink::CompletionSink;
use crate::memory::Memory;
use crate::op::{Done, Failure, Op};
use crate::region::Slice;

pub(super) struct Inbox {
    /// Posted, the oldest first.
    receives: VecDeque<Op>,
    /// Messages that are not delivered yet, starting with id `first`.
    messages: VecDeque<Option<Message>>,
    first: u64,
    /// The number of messages that have a receive.
    matched: usize,
    max_message: u64,
    /// Fragments in the peer's rendezvous buffers that have a receive.
    pub(super) fetches: Fetches,
}

/// A message that is arriving, or immediate data of a write.
struct Message {
    /// Of the message, or of the write.
    length: u64,
    imm: Option<u32>,
    /// The number of bytes that have not arrived yet.
    missing: u64,
    /// Fragments that wait for a receive, and the number of fragments being read from the peer.
    fragments: Vec<MessageFragment>,
    reading: u32,
    receive: Option<Op>,
}

/// A fragment of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageFragment {
    pub(super) location: FragmentLocation,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// Where a fragment is.
#[derive(Debug, Clone, Copy)]
pub(super) enum FragmentLocation {
    Slot(u32),
    /// In the peer's rendezvous buffers.
    Peer(Remote),
}

impl Message {
    fn new(length: u64, imm: Option<u32>, missing: u64) -> Self {
        Message { length, imm, missing, fragments: Vec::new(), reading: 0, receive: None }
    }

    fn is_complete(&self) -> bool {
        self.missing == 0 && self.fragments.is_empty() && self.reading == 0
    }
}

impl Inbox {
    pub(super) fn new(max_message: usize) -> Self {
        Inbox {
            receives: VecDeque::new(),
            messages: VecDeque::new(),
            first: 0,
            matched: 0,
            max_message: max_message as u64,
            fetches: Fetches::new(),
        }
    }

    /// The number of receives that are posted and not completed.
    pub(super) fn posted(&self) -> usize {
        self.receives.len() + self.matched
    }

    /// The number of messages received.
    pub(super) fn received(&self) -> u64 {
        self.first
    }

    pub(super) fn add(&mut self, receive: Op) {
        self.receives.push_back(receive);
    }

    /// The receive for a message that arrived complete, if it is the next one and fits.
    #[inline]
    pub(super) fn take_next(&mut self, id: u64, bytes: u64) -> Option<Op> {
        let is_next = id == self.first && self.messages.is_empty() && bytes <= self.max_message;
        let fits = |receive: &Op| bytes <= receive.work.total() as u64;
        if !is_next || !self.receives.front().is_some_and(fits) {
            return None;
        }
        self.first += 1;
        self.receives.pop_front()
    }

    /// A fragment of a message arrived.
    pub(super) fn message(
        &mut self,
        id: u64,
        total: u64,
        imm: Option<u32>,
        fragment: MessageFragment,
    ) -> Result<(), Failure> {
        let fits = fragment.offset.checked_add(fragment.length).is_some_and(|end| end <= total);
        // Only an empty message may have an empty fragment.
        let is_valid_length = fragment.length > 0 || total == 0;
        if !fits || !is_valid_length || total > self.max_message {
            return Err(Failure::ProtocolError);
        }
        let message = self.entry(id)?.get_or_insert_with(|| Message::new(total, imm, total));
        if (message.length, message.imm) != (total, imm) || message.missing < fragment.length {
            return Err(Failure::ProtocolError);
        }
        message.missing -= fragment.length;
        message.fragments.push(fragment);
        Ok(())
    }

    /// The immediate data of a write arrived; its slot is freed immediately.
    pub(super) fn immediate(&mut self, id: u64, length: u64, imm: u32) -> Result<(), Failure> {
        let entry = self.entry(id)?;
        if entry.is_some() {
            return Err(Failure::ProtocolError);
        }
        *entry = Some(Message::new(length, Some(imm), 0));
        Ok(())
    }

    fn entry(&mut self, id: u64) -> Result<&mut Option<Message>, Failure> {
        let at = id
            .checked_sub(self.first)
            .filter(|at| *at < MAX_MESSAGES_AHEAD)
            .ok_or(Failure::ProtocolError)?;
        let at = at as usize;
        if self.messages.len() <= at {
            self.messages.resize_with(at + 1, || None);
        }
        Ok(&mut self.messages[at])
    }

    /// Copies arrived fragments into their receives, and completes receives. The error: a message that is
    /// longer than its receive.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        slots: &mut Slots,
        freed: &mut u64,
        sink: &mut CompletionSink<'_>,
    ) -> Result<(), TooLong> {
        self.match_receives(sink)?;
        for (message, id) in self.messages.iter_mut().take(self.matched).zip(self.first..) {
            let Some(message) = message else { continue };
            let Some(receive) = &message.receive else { continue };
            for MessageFragment { location, offset, length } in message.fragments.drain(..) {
                let (offset, length) = (offset as usize, length as usize);
                match location {
                    FragmentLocation::Slot(slot) => {
                        let (memory, at) = slots.payload(slot);
                        scatter(receive.work.local(), offset, length, memory, at);
                        slots.free(slot);
                        *freed += 1;
                    }
                    FragmentLocation::Peer(from) => {
                        self.fetches.add(Fetch::new(id, offset, length, from));
                        message.reading += 1;
                    }
                }
            }
        }
        while self.matched > 0 && self.messages.front().is_some_and(is_complete) {
            let message = self.messages.pop_front().flatten();
            (self.first, self.matched) = (self.first + 1, self.matched - 1);
            let Some(Message { length, imm, receive: Some(receive), .. }) = message else {
                continue;
            };
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            sink.add(receive, Ok(Done::Received { length, imm }));
        }
        Ok(())
    }

    /// Assigns receives to messages, in order.
    #[inline]
    fn match_receives(&mut self, sink: &mut CompletionSink<'_>) -> Result<(), TooLong> {
        while let Some(Some(message)) = self.messages.get_mut(self.matched)
            && let Some(receive) = self.receives.pop_front()
        {
            // Immediate data has no payload.
            let bytes = message.missing
                + message.fragments.iter().map(|fragment| fragment.length).sum::<u64>();
            if bytes > receive.work.total() as u64 {
                sink.add(receive, Err(Failure::TooLong));
                return Err(TooLong { id: self.first + self.matched as u64 });
            }
            message.receive = Some(receive);
            self.matched += 1;
        }
        Ok(())
    }

    /// The receive of a message.
    pub(super) fn receive(&self, id: u64) -> Option<&Op> {
        let at = usize::try_from(id.checked_sub(self.first)?).ok()?;
        self.messages.get(at)?.as_ref()?.receive.as_ref()
    }

    /// A fragment was read from the peer; returns whether its message is complete.
    pub(super) fn fragment_read(&mut self, id: u64) -> bool {
        let at = id.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let message = at.and_then(|at| self.messages.get_mut(at)?.as_mut());
        let is_complete = message.is_none_or(|message| {
            message.reading -= 1;
            message.is_complete()
        });
        if is_complete {
            self.fetches.receive(id);
        }
        is_complete
    }

    /// The lane has ended: completes all receives, the oldest with the reason.
    pub(super) fn abandon(&mut self, mut reason: Failure, sink: &mut CompletionSink<'_>) {
        let matched = self.messages.drain(..).flatten().filter_map(|message| message.receive);
        for receive in matched.chain(self.receives.drain(..)) {
            sink.add(receive, Err(std::mem::replace(&mut reason, Failure::Flushed)));
        }
        self.matched = 0;
        self.fetches = Fetches::new();
    }
}

/// A message that is longer than its receive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong {
    pub(super) id: u64,
}

fn is_complete(message: &Option<Message>) -> bool {
    message.as_ref().is_some_and(Message::is_complete)
}

/// Copies `length` bytes to `offset` in the concatenated slices.
pub(super) fn scatter(into: &[Slice], offset: usize, length: usize, from: &Memory, at: usize) {
    let (mut skip, mut done) = (offset, 0);
    for slice in into {
        if skip >= slice.len() {
            skip -= slice.len();
            continue;
        }
        let count = (slice.len() - skip).min(length - done);
        slice.region().memory().copy(slice.offset() + skip, from, at + done, count);
        (skip, done) = (0, done + count);
        if done == length {
            return;
        }
    }
}

/// The maximum distance of a message id from the last received one; a well-behaved sender has fewer in flight.
const MAX_MESSAGES_AHEAD: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Pages;
    use crate::op::Slices;
    use crate::region::{Region, Rights};
    use crate::registration::Registration;
    use crate::stats::Stats;

    fn fragment(offset: u64, length: u64) -> MessageFragment {
        MessageFragment { location: FragmentLocation::Slot(0), offset, length }
    }

    #[test]
    fn invalid_messages_are_refused() {
        let mut inbox = Inbox::new(1000);
        let protocol_error = Err(Failure::ProtocolError);
        assert_eq!(inbox.message(0, 1001, None, fragment(0, 10)), protocol_error, "too long");
        assert_eq!(inbox.message(0, 100, None, fragment(95, 10)), protocol_error, "beyond its end");
        assert_eq!(
            inbox.message(0, 100, None, fragment(u64::MAX, 10)),
            protocol_error,
            "far beyond"
        );
        assert_eq!(
            inbox.message(0, 100, None, fragment(5, 0)),
            protocol_error,
            "an empty fragment"
        );
        assert_eq!(
            inbox.message(MAX_MESSAGES_AHEAD, 100, None, fragment(0, 10)),
            protocol_error,
            "far ahead"
        );
        assert_eq!(inbox.message(0, 100, None, fragment(0, 60)), Ok(()));
        assert_eq!(inbox.message(0, 90, None, fragment(60, 10)), protocol_error, "another length");
        assert_eq!(
            inbox.message(0, 100, Some(1), fragment(60, 10)),
            protocol_error,
            "other immediate data"
        );
        assert_eq!(
            inbox.message(0, 100, None, fragment(50, 50)),
            protocol_error,
            "more bytes than its length"
        );
        assert_eq!(inbox.immediate(0, 8, 7), protocol_error, "the id of a message");
        assert_eq!(inbox.immediate(1, 8, 7), Ok(()));
        assert_eq!(inbox.immediate(1, 8, 7), protocol_error, "twice");
    }

    #[test]
    fn a_complete_message_takes_its_receive_if_it_is_the_next_one() {
        let mut inbox = Inbox::new(1000);
        assert!(inbox.take_next(0, 0).is_none(), "no receive");
        (0..3).for_each(|op_id| inbox.add(Op::receive(op_id, Slices::EMPTY)));
        assert!(inbox.take_next(1, 0).is_none(), "not the next message");
        assert!(inbox.take_next(0, 1).is_none(), "longer than its receive");
        assert!(inbox.take_next(0, u64::MAX).is_none(), "longer than any message");
        let taken = inbox.take_next(0, 0).map(|receive| receive.op_id);
        assert_eq!((taken, inbox.received(), inbox.posted()), (Some(0), 1, 2));
        assert!(inbox.take_next(0, 0).is_none(), "already received");
        inbox.immediate(2, 8, 7).unwrap();
        assert!(inbox.take_next(1, 0).is_none(), "an earlier arrival waits");
        assert_eq!((inbox.received(), inbox.posted()), (1, 2));
    }

    #[test]
    fn abandoned_receives_complete_the_oldest_with_the_reason() {
        let mut inbox = Inbox::new(1000);
        (0..3).for_each(|op_id| inbox.add(Op::receive(op_id, Slices::EMPTY)));
        assert_eq!((inbox.posted(), inbox.received()), (3, 0));
        let mut done = Vec::new();
        inbox.abandon(
            Failure::PeerGone,
            &mut CompletionSink { stats: &Stats::default(), done: &mut done },
        );
        let outcomes: Vec<_> = done.iter().map(|one| (one.op_id, one.outcome)).collect();
        let [gone, flushed] = [Failure::PeerGone, Failure::Flushed].map(Err);
        assert_eq!(outcomes, [(0, gone), (1, flushed), (2, flushed)]);
        assert_eq!(inbox.posted(), 0);
    }

    #[test]
    fn bytes_are_scattered_from_any_offset() {
        let region = |length| {
            let memory = Memory::allocate(length, Pages::Plain).unwrap();
            Region::new(memory, Rights::NONE, Registration::Software)
        };
        let (from, into) = (region(4096), region(4096));
        from.memory().write(100, b"abcdefgh");
        let slices = [into.slice(0..2), into.slice(7..7), into.slice(10..13), into.slice(20..30)];
        scatter(&slices, 1, 8, from.memory(), 100);
        assert_eq!(into.slice(0..3).to_vec(), b"\0a\0");
        assert_eq!(into.slice(10..14).to_vec(), b"bcd\0");
        assert_eq!(into.slice(20..25).to_vec(), b"efgh\0");
    }
}
