//! Operations over streams of bytes: what the TCP lane is, and what the shared-memory lane does where
//! it cannot reach the peer's memory itself.
//!
//! One-sided operations are frames that the peer's engine executes, into and out of registered memory,
//! after it has checked key, bounds and rights. A frame that uses up a receive is sent only when the
//! peer has one, so no stream ever stands still for want of it. The protocol is in `frame.rs`; what
//! streams share in `core.rs`; one stream in `channel.rs`.

mod channel;
mod core;
mod frame;
mod in_flight;
mod stream;

use std::time::Duration;

use crate::op::{Completion, Failure, Op, Work};
use crate::remote::Reach;

use channel::Channel;
pub(crate) use core::Core;
use frame::{Header, Kind};
pub(crate) use stream::Stream;

pub(crate) struct Engine<S> {
    pub(crate) core: Core,
    channels: Vec<Channel<S>>,
    next: usize,
}

impl<S: Stream> Engine<S> {
    /// `patience`: how long an operation waits for a receive of the peer's.
    pub(crate) fn new(streams: impl IntoIterator<Item = S>, patience: Duration) -> Self {
        let channels = streams.into_iter().map(Channel::new).collect();
        Engine { core: Core::new(patience), channels, next: 0 }
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = &S> {
        self.channels.iter().map(|channel| &channel.stream)
    }

    pub(crate) fn streams_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.channels.iter_mut().map(|channel| &mut channel.stream)
    }

    /// Whether bytes wait to be sent on this stream.
    pub(crate) fn is_blocked(&self, stream: usize) -> bool {
        self.channels.get(stream).is_some_and(Channel::is_blocked)
    }

    /// How many frames wait.
    #[cfg(test)]
    pub(crate) fn backlog(&self) -> usize {
        self.channels.iter().map(Channel::backlog).sum()
    }

    /// Whether there is nothing to do unless the peer says something.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        let core = &self.core;
        core.is_quiet() && self.channels.iter().all(|channel| channel.is_quiet(core))
    }

    /// Begins an operation that asks the peer. `flush` must follow.
    pub(crate) fn begin(&mut self, op: Op) {
        if self.core.dead().is_some() {
            return self.core.complete(op, Err(Failure::Flushed));
        }
        if matches!(op.work, Work::Receive { .. }) {
            return self.core.post_receive(op);
        }
        let begun = self.core.clock();
        let takes_a_receive = op.work.takes_a_receive();
        let flight = self.core.operations.add(op, begun);
        if takes_a_receive && !(self.core.waiting.is_empty() && self.core.use_peer_receive()) {
            return self.core.wait_for_receive(flight);
        }
        self.queue(flight);
    }

    /// Queues an operation on one stream, or in parts on all.
    fn queue(&mut self, flight: u32) {
        let Some(op) = self.core.operations.op(flight) else { return };
        let header = header(&op.work, flight);
        let parts = self.parts(&header);
        if parts == 1 {
            let channel = self.idlest();
            return self.channels[channel].queue(header, flight);
        }
        let piece = (header.length as usize).div_ceil(parts);
        for part in 0..parts {
            let start = part * piece;
            let length = piece.min(header.length as usize - start);
            let number = self.core.operations.cut(flight, start, length, part == 0);
            let offset = header.offset.wrapping_add(start as u64);
            let header = Header { number, offset, length: length as u64, ..header };
            self.channels[part].queue(header, number);
        }
    }

    /// Into how many parts an operation is cut. What carries immediate data stays whole: it must not arrive
    /// before its bytes.
    fn parts(&self, header: &Header) -> usize {
        // What lies beyond all memory is for the peer to refuse, in one piece.
        let possible = header.offset.checked_add(header.length).is_some();
        let divisible =
            possible && (header.kind == Kind::Read || header.kind == Kind::Write && !header.flag);
        let most = (header.length / MIN_PART).max(1) as usize;
        if divisible { self.channels.len().min(most) } else { 1 }
    }

    fn idlest(&mut self) -> usize {
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
            channel.flush(&mut self.core);
        }
    }

    /// Executes what the peer asks, sends what waits, and collects what is over.
    pub(crate) fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        for channel in &mut self.channels {
            channel.receive(&mut self.core);
        }
        self.release();
        // Before anything is sent: frames of operations that are over have no memory any more.
        self.bury();
        for channel in &mut self.channels {
            channel.flush(&mut self.core);
            channel.report(&mut self.core, false);
        }
        self.bury();
        self.core.take_done(done)
    }

    /// Ends the lane if a stream was lost. Only after all were read: one that ended may be overtaken by
    /// another that says why.
    fn bury(&mut self) {
        if let Some(why) = self.channels.iter().find_map(|channel| channel.lost) {
            self.core.die(None, why, why);
        }
        if self.core.dead().is_some() {
            self.abandon();
        }
    }

    /// Whether a stream was lost since the last poll.
    pub(crate) fn has_lost(&self) -> bool {
        self.channels.iter().any(|channel| channel.lost.is_some())
    }

    /// Sends what waited for receives that are there now, and gives up what waited too long.
    fn release(&mut self) {
        while let Some(flight) = self.core.next_waiting() {
            self.queue(flight);
        }
        if let Some(flight) = self.core.overdue() {
            self.core.die(Some(flight), Failure::NotReady, Failure::Flushed);
        }
    }

    /// The lane is dead. If one stream tells the peer why, the others keep still until that is read;
    /// if none does, their end tells it.
    fn abandon(&mut self) {
        let reported = self.channels.iter().any(|channel| channel.last_word);
        for channel in &mut self.channels {
            if reported { channel.mute(&mut self.core) } else { channel.close(&mut self.core) }
        }
    }

    /// Reports to the peer at once what it should know, before sleeping.
    pub(crate) fn settle(&mut self) {
        for channel in &mut self.channels {
            channel.report(&mut self.core, true);
        }
    }

    /// Ends the lane from this side. What is in flight comes back flushed.
    pub(crate) fn close(&mut self, reason: Failure) {
        self.core.die(None, reason, Failure::Flushed);
        for channel in &mut self.channels {
            channel.close(&mut self.core);
        }
    }
}

/// The frame that asks for an operation.
#[inline]
fn header(work: &Work, flight: u32) -> Header {
    let kind = match work {
        // The bytes went by another path already.
        Work::Write { to, imm: Some(_), .. } if matches!(to.window.reach(), Reach::Mapped(_)) => {
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
        _ => (flight, false),
    };
    let (first, second) = match work {
        Work::FetchAdd { add, .. } => (*add, 0),
        Work::CompareSwap { expect, new, .. } => (*new, *expect),
        _ => (0, 0),
    };
    let (key, offset) = work.target().map_or((0, 0), |target| match target.window.reach() {
        Reach::Ask { key } | Reach::Process { key, .. } => (*key, target.offset),
        _ => (0, target.offset),
    });
    let length = work.total() as u64;
    Header { flag, number, length, key, offset, first, second, ..Header::new(kind) }
}

/// Parts smaller than this are not worth another stream's attention.
const MIN_PART: u64 = 128 << 10;
