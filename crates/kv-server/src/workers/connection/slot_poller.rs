//! Polls a client's slot block: request slots instead of messages, completion flags instead of immediate data. See
//! [`SlotBlock`].
//!
//! If the link can access the client's memory directly, reading it costs a few loads. If it cannot (any more), the client's
//! cache line and the announced messages are read by operations: `in_flight` counts those, and at most one reads the line.
//! A worker polls few slot blocks; it counts those whose state is not `Off`.

use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};

use fabric::link::Link;
use fabric::{Lane, MappedInto, Op, Slices, Window, Work};
use kv_proto::wire::{RequestSlot, SlotBlock};

use super::client::Client;
use super::completion_id::{CompletionId, SlotBlockOp};
use crate::workers::context::WorkerContext;
use crate::workers::receive_areas::{MAX_MESSAGE_BYTES, ReceiveArea};

/// The state of a slot block.
#[derive(Default)]
pub(super) struct SlotPoller {
    state: PollState,
    /// The slot sequence of the last slot read.
    last: u64,
    /// The number of operations in flight, and whether one of them reads the line.
    in_flight: usize,
    reading: bool,
    /// The line must be read once, even if it is not polled.
    requested: bool,
    /// A completion flag was set since the line was last read; and before that read was posted, which alone shows whether the
    /// client slept then.
    flag_set: bool,
    flag_set_before_read: bool,
    /// The number of steps, to poll the link in every `LINK_POLL_INTERVAL`th.
    steps: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum PollState {
    #[default]
    Off,
    /// The client is being notified of the start.
    Starting,
    On,
    /// The client is being notified of the end.
    Stopping,
    /// The line is read once more: the client may have used a slot before it was notified.
    LastRead,
}

/// The result of [`SlotPoller::read_client_line`].
pub(super) enum LineRead {
    NotReady,
    /// The client's cache line was read; `last`: polling ends with it.
    Ready {
        line: ClientLine,
        last: bool,
    },
    /// Reading would cost a round trip: messages are better.
    NotShared,
}

/// The client's cache line of its slot block, as it was read.
pub(super) struct ClientLine {
    bytes: [u8; SlotBlock::LINE],
    /// A completion flag was set before it was read.
    flag_set: bool,
}

impl SlotPoller {
    /// Whether no operation is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Whether the link need not be polled in this step, because only request slots are expected.
    #[inline]
    pub(super) fn may_skip_poll(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        self.state == PollState::On
            && self.in_flight == 0
            && !self.steps.is_multiple_of(LINK_POLL_INTERVAL)
    }

    /// Starts polling, if that is cheap, and notifies the client.
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
            client.has_slot_block() && self.state == PollState::Off && link.uses_shared_memory();
        if may && context.polled_slot_blocks < MAX_POLLED {
            context.polled_slot_blocks += 1;
            self.state = PollState::Starting;
            self.write_state(SlotBlock::SET, client, area, ops);
        }
    }

    /// Starts to end polling; returns whether there is something to post.
    pub(super) fn end(
        &mut self,
        client: Option<&Client>,
        area: &ReceiveArea,
        ops: &mut VecDeque<Op>,
    ) -> bool {
        if self.state != PollState::On {
            return false;
        }
        self.state = PollState::Stopping;
        // A closed client is not notified.
        if let Some(client) = client {
            self.write_state(0, client, area, ops);
        }
        true
    }

    /// Whether polling has ended: the client was notified, and nothing is in flight.
    pub(super) fn has_ended(&self, is_closed: bool) -> bool {
        self.in_flight == 0 && (is_closed || self.state == PollState::Off && !self.requested)
    }

    /// Ends polling.
    pub(super) fn stop(&mut self, context: &mut WorkerContext) {
        if self.state != PollState::Off {
            context.polled_slot_blocks -= 1;
        }
        // The client may sleep since a flag was set: the line must be read once more to notice that.
        self.requested |= self.flag_set || self.flag_set_before_read;
        self.state = PollState::Off;
    }

    fn write_state(
        &mut self,
        word: u64,
        client: &Client,
        area: &ReceiveArea,
        ops: &mut VecDeque<Op>,
    ) {
        let to = client.client_buffer().at(SlotBlock::STORE as u64);
        ops.push_back(Op::write(
            CompletionId::SlotBlock(SlotBlockOp::State).encode(),
            area.word(word),
            to,
        ));
        self.in_flight += 1;
    }

    /// Handles the client's request to check its slots.
    pub(super) fn request_check(&mut self, client: &Client) -> Result<(), &'static str> {
        self.requested = client.has_slot_block();
        self.requested.then_some(()).ok_or("a check of slots without slot block")
    }

    /// Records that a completion flag was set.
    #[inline]
    pub(super) fn flag_set(&mut self) {
        self.flag_set = true;
        // If the slot block is not polled, the line must be read to see whether the client sleeps.
        self.requested |= self.state == PollState::Off;
    }

    /// Reads the client's cache line, if it is polled or requested.
    #[inline]
    pub(super) fn read_client_line(
        &mut self,
        link: &mut Link,
        client_buffer: &Window,
        area: &ReceiveArea,
        ops: &mut VecDeque<Op>,
    ) -> LineRead {
        let due = matches!(self.state, PollState::On | PollState::LastRead) || self.requested;
        if self.reading || !due {
            return LineRead::NotReady;
        }
        if self.flag_set || self.state != PollState::On || self.requested {
            // Our writes must precede this read: the client does both in the opposite order.
            fence(Ordering::SeqCst);
        }
        let mut line = AlignedLine([0; SlotBlock::LINE]);
        let into = MappedInto::Bytes(&mut line.0);
        if link.read_mapped(client_buffer, SlotBlock::CLIENT as u64, into) {
            self.requested = false;
            let flags_set = [&mut self.flag_set, &mut self.flag_set_before_read];
            let flag_set = flags_set.map(std::mem::take) != [false; 2];
            let line = ClientLine { bytes: line.0, flag_set };
            return LineRead::Ready { line, last: self.state == PollState::LastRead };
        }
        // The link has switched to another path.
        if self.state == PollState::On && !link.uses_shared_memory() {
            return LineRead::NotShared;
        }
        let last = self.state == PollState::LastRead;
        let id =
            CompletionId::SlotBlock(if last { SlotBlockOp::LastLine } else { SlotBlockOp::Line });
        let from = client_buffer.at(SlotBlock::CLIENT as u64);
        ops.push_back(Op::read(id.encode(), area.line(), from));
        self.in_flight += 1;
        (self.reading, self.requested) = (true, false);
        self.flag_set_before_read |= std::mem::take(&mut self.flag_set);
        LineRead::NotReady
    }

    /// Handles the completion of an operation on the slot block.
    pub(super) fn completed(&mut self, op: SlotBlockOp, is_ok: bool, context: &mut WorkerContext) {
        self.in_flight -= 1;
        match op {
            SlotBlockOp::Line | SlotBlockOp::LastLine => self.reading = false,
            SlotBlockOp::State => match self.state {
                PollState::Starting if is_ok => self.state = PollState::On,
                PollState::Stopping if is_ok => self.state = PollState::LastRead,
                _ => self.stop(context),
            },
            SlotBlockOp::Wake | SlotBlockOp::Slot(_) => {}
        }
    }

    /// Takes the line that an operation has read. For flags that were set after the read was posted, the line is read again.
    #[inline]
    pub(super) fn take_client_line(&mut self, area: &ReceiveArea) -> ClientLine {
        let mut bytes = [0; SlotBlock::LINE];
        area.read_line(&mut bytes);
        ClientLine { bytes, flag_set: std::mem::take(&mut self.flag_set_before_read) }
    }

    /// The next slot of a line, with its full slot sequence: at most one for each slot.
    #[inline]
    pub(super) fn next_slot(&mut self, line: &ClientLine) -> Option<(u64, RequestSlot)> {
        let slot_sequence = self.last + 1;
        let slot = RequestSlot::from_word(line.word(SlotBlock::slot(slot_sequence)));
        (slot.slot_sequence == slot_sequence as u16).then(|| {
            self.last = slot_sequence;
            (slot_sequence, slot)
        })
    }

    /// Reads the message of a slot; `true` if it was read directly.
    #[inline]
    pub(super) fn read_message(
        &mut self,
        (slot_sequence, slot): (u64, RequestSlot),
        link: &mut Link,
        client_buffer: &Window,
        area: &ReceiveArea,
        ops: &mut VecDeque<Op>,
        message: &mut Vec<u8>,
    ) -> Result<bool, &'static str> {
        let at = u64::from(slot.at) * RequestSlot::UNIT as u64;
        let length = usize::from(slot.length);
        if length > MAX_MESSAGE_BYTES || at + length as u64 > client_buffer.len() {
            return Err("a request slot points outside the client buffer");
        }
        // Copied before it is parsed: the client can still change it.
        message.resize(length, 0);
        if link.read_mapped(client_buffer, at, MappedInto::Bytes(message)) {
            return Ok(true);
        }
        let into = area.announced(slot_sequence, length);
        let id = CompletionId::SlotBlock(SlotBlockOp::Slot(slot_sequence));
        ops.push_back(Op::read(id.encode(), into, client_buffer.at(at)));
        self.in_flight += 1;
        Ok(false)
    }

    /// Wakes a client that slept, or was about to, when a flag was set.
    #[inline]
    pub(super) fn wake(&mut self, line: &ClientLine, ops: &mut VecDeque<Op>) {
        if line.flag_set && line.word(SlotBlock::CLIENT) == SlotBlock::SET {
            let work = Work::Send { from: Slices::EMPTY, imm: Some(0) };
            ops.push_back(Op { op_id: CompletionId::SlotBlock(SlotBlockOp::Wake).encode(), work });
            self.in_flight += 1;
        }
    }
}

/// Aligned, so that its words are read whole.
#[repr(align(64))]
struct AlignedLine([u8; SlotBlock::LINE]);

impl ClientLine {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_le_bytes(word)
    }
}

/// Slot blocks that a worker polls: each is read in every round.
const MAX_POLLED: usize = 8;
/// Steps per poll of the link while a slot block is polled.
const LINK_POLL_INTERVAL: u32 = 16;
