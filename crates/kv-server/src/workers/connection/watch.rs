//! Watching a client's control block: slots instead of messages, completion flags instead of immediate data. See
//! [`ControlBlock`].
//!
//! Where the link can look into the client's memory, a look costs a few loads. Where it cannot (any more), the client's
//! cache line and what it announces are read by operations: `in_flight` counts those, and at most one reads the line. A worker
//! watches few control blocks; it counts those whose state is not `No`.

use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};

use fabric::link::Link;
use fabric::{Lane, Op, Pieces, Window, Work};
use kv_proto::wire::{ControlBlock, RequestSlot};

use super::client::Client;
use super::token::{Token, WatchOp};
use crate::workers::context::WorkerContext;
use crate::workers::receive_areas::{MESSAGE, ReceiveArea};

/// What is known of a control block.
#[derive(Default)]
pub(super) struct Watch {
    state: Watching,
    /// The sequence of the last slot that was read.
    last: u64,
    /// How many operations for it are in flight, and whether one of them reads the line.
    in_flight: usize,
    reading: bool,
    /// The client asked us to look.
    called: bool,
    /// A completion flag was set since the client was last seen to be awake.
    flag_set: bool,
    /// How often it was asked whether the link is to be polled.
    turns: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Watching {
    #[default]
    No,
    /// The client is being told that we watch.
    Begins,
    Yes,
    /// The client is being told that we do not.
    Ends,
    /// One more look: it may have left a slot before it was told.
    Last,
}

/// What came of a look.
pub(super) enum Look {
    Nothing,
    /// The client's cache line is here, to be [taken](Watch::take_line), for the last time or not.
    Line {
        last: bool,
    },
    /// A look would cost a round trip: messages are better.
    Far,
}

/// A client's cache line of its control block, as it was read.
pub(super) struct Line {
    bytes: [u8; ControlBlock::LINE],
    /// A completion flag was set before it was read.
    flag_set: bool,
}

impl Watch {
    /// Whether nothing is in flight for it.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Whether the link need not be polled this time, where there is nothing to wait for but request slots.
    #[inline]
    pub(super) fn may_skip_poll(&mut self) -> bool {
        self.turns = self.turns.wrapping_add(1);
        self.state == Watching::Yes && self.in_flight == 0 && !self.turns.is_multiple_of(POLLS)
    }

    /// Begins to watch, if that costs little. Whoever asks by messages is told so.
    #[inline]
    pub(super) fn begin(
        &mut self,
        client: &Client,
        link: &Link,
        area: &ReceiveArea,
        ops: &mut VecDeque<Op>,
        context: &mut WorkerContext,
    ) {
        let may =
            client.has_control_block() && self.state == Watching::No && link.uses_shared_memory();
        if may && context.watched < MAX_WATCHED {
            context.watched += 1;
            self.state = Watching::Begins;
            self.tell(ControlBlock::SET, client, area, ops);
        }
    }

    /// Begins to end watching; returns whether there is something to post.
    pub(super) fn end(
        &mut self,
        client: Option<&Client>,
        area: &ReceiveArea,
        ops: &mut VecDeque<Op>,
    ) -> bool {
        if self.state != Watching::Yes {
            return false;
        }
        self.state = Watching::Ends;
        // Nobody is told anything who was dismissed.
        if let Some(client) = client {
            self.tell(0, client, area, ops);
        }
        true
    }

    /// Whether watching has ended: the client knows, and nothing is in flight.
    pub(super) fn has_ended(&self, is_dismissed: bool) -> bool {
        self.in_flight == 0 && (is_dismissed || self.state == Watching::No && !self.called)
    }

    /// Not watched any more.
    pub(super) fn stop(&mut self, context: &mut WorkerContext) {
        if self.state != Watching::No {
            context.watched -= 1;
        }
        // It may sleep since we set a flag, and nobody looks any more.
        self.called |= self.flag_set;
        self.state = Watching::No;
    }

    fn tell(&mut self, word: u64, client: &Client, area: &ReceiveArea, ops: &mut VecDeque<Op>) {
        let to = client.receive_buffer().at(ControlBlock::STORE as u64);
        ops.push_back(Op::write(Token::Watch(WatchOp::State).encode(), area.word(word), to));
        self.in_flight += 1;
    }

    /// The client asks us to look.
    pub(super) fn call(&mut self, client: &Client) -> Result<(), &'static str> {
        self.called = client.has_control_block();
        self.called.then_some(()).ok_or("it has no control block to look at")
    }

    /// A completion flag was set.
    #[inline]
    pub(super) fn flag_set(&mut self) {
        self.flag_set = true;
        // Where nobody watches any more, the client may sleep and not be seen.
        self.called |= self.state == Watching::No;
    }

    /// Looks at the control block, if it is watched.
    #[inline]
    pub(super) fn look(
        &mut self,
        link: &mut Link,
        receive_buffer: &Window,
        area: &ReceiveArea,
        ops: &mut VecDeque<Op>,
    ) -> Look {
        let due = matches!(self.state, Watching::Yes | Watching::Last) || self.called;
        if self.reading || !due {
            return Look::Nothing;
        }
        if self.flag_set || self.state != Watching::Yes || self.called {
            // What we wrote comes before what we read: the client does both in the opposite order.
            fence(Ordering::SeqCst);
        }
        if link.peek(receive_buffer, ControlBlock::CLIENT as u64, &area.line()) {
            self.called = false;
            return Look::Line { last: self.state == Watching::Last };
        }
        // The link uses another path now.
        if self.state == Watching::Yes && !link.uses_shared_memory() {
            return Look::Far;
        }
        let last = self.state == Watching::Last;
        let token = Token::Watch(if last { WatchOp::LastLine } else { WatchOp::Line });
        let from = receive_buffer.at(ControlBlock::CLIENT as u64);
        ops.push_back(Op::read(token.encode(), area.line(), from));
        self.in_flight += 1;
        (self.reading, self.called) = (true, false);
        Look::Nothing
    }

    /// An operation for the control block is over.
    pub(super) fn completed(&mut self, op: WatchOp, is_ok: bool, context: &mut WorkerContext) {
        self.in_flight -= 1;
        match op {
            WatchOp::Line | WatchOp::LastLine => self.reading = false,
            WatchOp::State => match self.state {
                Watching::Begins if is_ok => self.state = Watching::Yes,
                Watching::Ends if is_ok => self.state = Watching::Last,
                _ => self.stop(context),
            },
            WatchOp::Wake | WatchOp::Slot(_) => {}
        }
    }

    /// The line that was read. What is set from here on, it is too old for: it is looked at once more.
    #[inline]
    pub(super) fn take_line(&mut self, area: &ReceiveArea) -> Line {
        let mut bytes = [0; ControlBlock::LINE];
        area.read_line(&mut bytes);
        Line { bytes, flag_set: std::mem::take(&mut self.flag_set) }
    }

    /// The next slot of a line, with its whole sequence: as many as there are slots at most, since each has one.
    #[inline]
    pub(super) fn next_slot(&mut self, line: &Line) -> Option<(u64, RequestSlot)> {
        let sequence = self.last + 1;
        let slot = RequestSlot::from_word(line.word(ControlBlock::slot(sequence)));
        (slot.sequence == sequence as u16).then(|| {
            self.last = sequence;
            (sequence, slot)
        })
    }

    /// Reads the message that a slot announces; returns its length if it is here already.
    #[inline]
    pub(super) fn read_message(
        &mut self,
        (sequence, slot): (u64, RequestSlot),
        link: &mut Link,
        receive_buffer: &Window,
        area: &ReceiveArea,
        ops: &mut VecDeque<Op>,
    ) -> Result<Option<usize>, &'static str> {
        let at = u64::from(slot.at) * RequestSlot::UNIT as u64;
        let length = usize::from(slot.length);
        if length > MESSAGE || at + length as u64 > receive_buffer.len() {
            return Err("a slot points outside the receive buffer");
        }
        let place = area.announced(sequence, length);
        if link.peek(receive_buffer, at, &place) {
            return Ok(Some(length));
        }
        let token = Token::Watch(WatchOp::Slot(sequence));
        ops.push_back(Op::read(token.encode(), place, receive_buffer.at(at)));
        self.in_flight += 1;
        Ok(None)
    }

    /// Wakes a client that slept, or was about to, when we set a flag.
    #[inline]
    pub(super) fn wake(&mut self, line: &Line, ops: &mut VecDeque<Op>) {
        if line.flag_set && line.word(ControlBlock::CLIENT) == ControlBlock::SET {
            let work = Work::Send { from: Pieces::EMPTY, imm: Some(0) };
            ops.push_back(Op { token: Token::Watch(WatchOp::Wake).encode(), work });
            self.in_flight += 1;
        }
    }
}

impl Line {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_le_bytes(word)
    }
}

/// How many control blocks a worker watches: each costs a look in every round.
const MAX_WATCHED: usize = 8;
/// How many looks at a control block there are for one at the link.
const POLLS: u32 = 16;
