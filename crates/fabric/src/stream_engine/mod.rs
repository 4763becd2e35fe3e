//! Operations over byte streams: for the TCP lane, and for the shared-memory lane where
//! it cannot access the peer's memory directly.
//!
//! One-sided operations are frames that the peer's engine executes, into and out of registered memory,
//! after it has checked key, bounds and rights. A frame that consumes a receive is sent only when the
//! peer has one, so a missing receive never blocks a stream. The protocol is in `frame.rs`; the
//! shared state in `lane_state.rs`; one stream in `channel/`.

mod channel;
mod frame;
mod in_flight;
mod lane_state;
mod stream;

use std::collections::VecDeque;
use std::time::Duration;

use crate::op::{Completion, Failure, Op, Work};
use crate::packets::{Packet, PacketCounts, PacketReceiver};
use crate::remote::AccessMethod;

use channel::StreamChannel;
use frame::{Header, Kind};
use lane_state::LaneState;
pub(crate) use stream::Stream;

pub(crate) struct StreamEngine<S> {
    pub(crate) state: LaneState,
    channels: Vec<StreamChannel<S>>,
    next: usize,
}

impl<S: Stream> StreamEngine<S> {
    /// `receive_timeout`: how long an operation waits for one of the peer's receives.
    pub(crate) fn new(streams: impl IntoIterator<Item = S>, receive_timeout: Duration) -> Self {
        let channels = streams.into_iter().map(StreamChannel::new).collect();
        StreamEngine { state: LaneState::new(receive_timeout), channels, next: 0 }
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = &S> {
        self.channels.iter().map(|channel| &channel.stream)
    }

    pub(crate) fn streams_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.channels.iter_mut().map(|channel| &mut channel.stream)
    }

    /// Whether bytes wait to be sent on this stream.
    pub(crate) fn has_backlog(&self, stream: usize) -> bool {
        self.channels.get(stream).is_some_and(StreamChannel::has_backlog)
    }

    /// The number of queued frames.
    #[cfg(test)]
    pub(crate) fn backlog(&self) -> usize {
        self.channels.iter().map(StreamChannel::backlog).sum()
    }

    /// Whether there is nothing to do until the peer sends something.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        let state = &self.state;
        state.is_idle() && self.channels.iter().all(|channel| channel.is_idle(state))
    }

    /// Starts an operation that the peer executes. `flush` must follow.
    pub(crate) fn start(&mut self, op: Op) {
        if self.state.dead().is_some() {
            return self.state.complete(op, Err(Failure::Flushed));
        }
        if matches!(op.work, Work::Receive { .. }) {
            return self.state.post_receive(op);
        }
        let started = self.state.start_clock();
        let consumes_receive = op.work.consumes_receive();
        let id = self.state.operations.add(op, started);
        if consumes_receive && !(self.state.waiting.is_empty() && self.state.use_peer_receive()) {
            return self.state.wait_for_receive(id);
        }
        self.queue(id);
    }

    /// Sends a packet, or queues it, unless operations are left that must be before it. `flush` must follow.
    #[inline]
    pub(crate) fn send_packet(&mut self, before: &VecDeque<Op>, packet: &Packet<'_>) -> bool {
        packet.check();
        // All on one stream, which keeps their order.
        if let Some(channel) = self.channels.first_mut().filter(|_| before.is_empty()) {
            channel.send_packet(packet, &mut self.state);
            return true;
        }
        false
    }

    /// Queues an operation on one stream, or split over all.
    fn queue(&mut self, id: u32) {
        let Some(op) = self.state.operations.op(id) else { return };
        let header = header(&op.work, id);
        let parts = self.parts(&header);
        if parts == 1 {
            let channel = self.least_busy();
            return self.channels[channel].queue(header, id);
        }
        let part_length = (header.length as usize).div_ceil(parts);
        for part in 0..parts {
            let start = part * part_length;
            let length = part_length.min(header.length as usize - start);
            let number = self.state.operations.add_part(id, start, length, part == 0);
            let offset = header.offset.wrapping_add(start as u64);
            let header = Header { number, offset, length: length as u64, ..header };
            self.channels[part].queue(header, number);
        }
    }

    /// The number of parts of an operation. One with immediate data is not split: the immediate data must not arrive
    /// before the bytes.
    fn parts(&self, header: &Header) -> usize {
        // If the range overflows, the peer refuses it, in one part.
        let possible = header.offset.checked_add(header.length).is_some();
        let divisible =
            possible && (header.kind == Kind::Read || header.kind == Kind::Write && !header.flag);
        let max_parts = (header.length / MIN_PART_BYTES).max(1) as usize;
        if divisible { self.channels.len().min(max_parts) } else { 1 }
    }

    fn least_busy(&mut self) -> usize {
        if self.channels.len() == 1 {
            return 0;
        }
        self.next = (self.next + 1) % self.channels.len();
        let rotated = (0..self.channels.len()).map(|at| (at + self.next) % self.channels.len());
        rotated.min_by_key(|at| self.channels[*at].backlog()).unwrap_or(0)
    }

    /// Sends what it can.
    pub(crate) fn flush(&mut self) {
        for channel in &mut self.channels {
            channel.flush(&mut self.state);
        }
    }

    /// Executes the peer's requests, sends queued frames, and returns completions. Packets are kept until a poll has a receiver.
    pub(crate) fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        let mut queue = self.state.packets.take_queue();
        self.advance(&mut queue);
        self.state.packets.put_queue(queue);
        self.state.take_done(done)
    }

    /// As [`StreamEngine::poll`], with a receiver for packets.
    #[inline]
    pub(crate) fn poll_packets(
        &mut self,
        receiver: &mut dyn PacketReceiver,
        done: &mut Vec<Completion>,
    ) -> PacketCounts {
        self.state.packets.deliver(receiver);
        self.advance(receiver);
        self.state.take_done(done);
        self.state.packet_counts()
    }

    /// As [`StreamEngine::poll_packets`], if nothing has arrived and there is nothing to send.
    #[inline]
    pub(crate) fn poll_idle(
        &mut self,
        receiver: &mut dyn PacketReceiver,
        done: &mut Vec<Completion>,
    ) -> PacketCounts {
        self.state.packets.deliver(receiver);
        self.state.take_done(done);
        self.state.packet_counts()
    }

    fn advance(&mut self, receiver: &mut dyn PacketReceiver) {
        for channel in &mut self.channels {
            channel.receive(&mut self.state, receiver);
        }
        if !self.state.waiting.is_empty() {
            self.send_waiting();
        }
        // Before anything is sent: frames of finished operations have no memory any more.
        self.end_if_lost();
        for channel in &mut self.channels {
            channel.flush(&mut self.state);
            channel.report(&mut self.state, false);
        }
        self.end_if_lost();
    }

    /// Ends the lane if a stream was lost. Only after all were read: the end of one may arrive before
    /// the reason, which is on another.
    #[inline]
    fn end_if_lost(&mut self) {
        if self.has_lost_stream() || self.state.dead().is_some() {
            self.end_lost();
        }
    }

    #[cold]
    fn end_lost(&mut self) {
        if let Some(why) = self.channels.iter().find_map(|channel| channel.lost) {
            self.state.fail(None, why, why);
        }
        if self.state.dead().is_some() {
            self.close_channels();
        }
    }

    /// Whether a stream was lost since the last poll.
    #[inline]
    pub(crate) fn has_lost_stream(&self) -> bool {
        self.channels.iter().any(|channel| channel.lost.is_some())
    }

    /// Queues operations for which there are receives now, and ends the lane if one has timed out.
    fn send_waiting(&mut self) {
        while let Some(id) = self.state.next_waiting() {
            self.queue(id);
        }
        if let Some(id) = self.state.timed_out() {
            self.state.fail(Some(id), Failure::NotReady, Failure::Flushed);
        }
    }

    /// The lane is dead. If one stream sends the reason to the peer, the others stay open until that is read;
    /// if none does, all are closed.
    fn close_channels(&mut self) {
        let reported = self.channels.iter().any(|channel| channel.sends_reason);
        for channel in &mut self.channels {
            if reported {
                channel.stop_silently(&mut self.state)
            } else {
                channel.close(&mut self.state)
            }
        }
    }

    /// Sends acknowledgements and credits to the peer immediately, before sleeping.
    pub(crate) fn report_now(&mut self) {
        for channel in &mut self.channels {
            channel.report(&mut self.state, true);
        }
    }

    /// Ends the lane from this end. Operations in flight are flushed.
    pub(crate) fn close(&mut self, reason: Failure) {
        self.state.fail(None, reason, Failure::Flushed);
        for channel in &mut self.channels {
            channel.close(&mut self.state);
        }
    }
}

/// The header of an operation's frame.
#[inline]
fn header(work: &Work, id: u32) -> Header {
    let kind = match work {
        // The bytes were already written to the mapped memory.
        Work::Write { to, imm: Some(_), .. }
            if matches!(to.window.access_method(), AccessMethod::Mapped(_)) =>
        {
            Kind::Imm
        }
        Work::Write { .. } => Kind::Write,
        Work::Read { .. } => Kind::Read,
        Work::Send { .. } | Work::Receive { .. } => Kind::Send,
        Work::FetchAdd { .. } => Kind::Add,
        Work::CompareSwap { .. } => Kind::Swap,
    };
    let (number, flag) = match work {
        Work::Write { imm: Some(imm), .. } | Work::Send { imm: Some(imm), .. } => (*imm, true),
        _ => (id, false),
    };
    let (first, second) = match work {
        Work::FetchAdd { add, .. } => (*add, 0),
        Work::CompareSwap { expect, new, .. } => (*new, *expect),
        _ => (0, 0),
    };
    let (key, offset) =
        work.target().map_or((0, 0), |target| match target.window.access_method() {
            AccessMethod::Request { key } | AccessMethod::Process { key, .. } => {
                (*key, target.offset)
            }
            _ => (0, target.offset),
        });
    let length = work.total() as u64;
    Header { flag, number, length, key, offset, first, second, ..Header::new(kind) }
}

/// Smaller parts are not worth splitting.
const MIN_PART_BYTES: u64 = 128 << 10;
