//! One stream of a lane: frames out (`outgoing.rs`), frames in (`incoming.rs`), and how it ends.

mod incoming;
mod outgoing;

use std::collections::VecDeque;

use super::core::Core;
use super::frame::{Header, Kind, reason, reason_number};
use super::stream::Stream;
use crate::iovec::Part;
use crate::op::Failure;
use incoming::{Incoming, Sink};
use outgoing::{Outgoing, PARTS, Payload};

pub(super) struct Channel<S> {
    pub(super) stream: S,
    parts: Vec<Part>,

    /// Frames to be sent, the first of them perhaps in part.
    queue: VecDeque<Outgoing>,
    sent: usize,
    /// Counted frames that the peer has and has not acknowledged, and how many it has.
    unacknowledged: VecDeque<u32>,
    acknowledged: u32,
    /// Answers of ours in the queue.
    answers: usize,

    /// Bytes read ahead: of them `ahead.0..ahead.1` are not used yet.
    stage: Box<[u8]>,
    ahead: (usize, usize),
    incoming: Option<Incoming>,
    /// How many counted frames were executed, and how many the peer knows of.
    executed: u32,
    reported: u32,
    /// For how many polls there was something to report to the peer.
    due: u32,
    /// No more is read or queued.
    ended: bool,
    /// The peer was told so.
    finished: bool,
    closed: bool,
    /// It carries the reason of the end to the peer.
    pub(super) last_word: bool,
    /// No more can be written. What the peer said before may still be read.
    broken: bool,
    /// The stream failed, or the peer ended it.
    pub(super) lost: Option<Failure>,
}

impl<S: Stream> Channel<S> {
    pub(super) fn new(stream: S) -> Self {
        Channel {
            stream,
            parts: Vec::with_capacity(PARTS),
            queue: VecDeque::new(),
            sent: 0,
            unacknowledged: VecDeque::new(),
            acknowledged: 0,
            answers: 0,
            stage: vec![0; S::AHEAD.max(Header::LONGEST)].into(),
            ahead: (0, 0),
            incoming: None,
            executed: 0,
            reported: 0,
            due: 0,
            ended: false,
            finished: false,
            closed: false,
            last_word: false,
            broken: false,
            lost: None,
        }
    }

    /// Bytes that wait to be sent.
    pub(super) fn is_blocked(&self) -> bool {
        !self.queue.is_empty() || self.stream.has_unsent()
    }

    /// Nothing to send, and nothing to report.
    #[inline]
    pub(super) fn is_quiet(&self, core: &Core) -> bool {
        let reported = self.executed == self.reported && !core.must_report();
        !self.is_blocked() && reported && self.lost.is_none()
    }

    /// How many frames wait, to choose the least busy stream.
    pub(super) fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Queues a frame for an operation in flight.
    #[inline]
    pub(super) fn queue(&mut self, header: Header, flight: u32) {
        self.push(header, Payload::Operation(flight));
    }

    #[inline]
    fn push(&mut self, header: Header, payload: Payload) {
        if self.broken || self.closed {
            return;
        }
        self.queue.push_back(Outgoing { header, bytes: [0; Header::LONGEST], payload });
    }

    /// Tells the peer that it may not, and ends the lane: `question`, or the frame that comes after
    /// those acknowledged.
    fn refuse(
        &mut self,
        failure: Failure,
        question: Option<u32>,
        core: &mut Core,
    ) -> Result<(), Failure> {
        let header = Header {
            number: question.unwrap_or(0),
            flag: question.is_none(),
            length: reason_number(failure),
            ..Header::new(Kind::Fail)
        };
        self.stop(core);
        // Behind a frame that was cut short nothing can be said.
        if !self.closed && !self.broken {
            self.last_word = true;
            self.push(header, Payload::None);
        }
        core.die(None, failure, Failure::Flushed);
        Ok(())
    }

    /// The peer refused something of ours.
    fn failed(&mut self, header: Header, core: &mut Core) {
        let cause = match header.flag {
            true => self.unacknowledged.front().copied().or_else(|| self.being_sent()),
            false => Some(header.number),
        };
        self.stop(core);
        core.die(cause, reason(header.length), Failure::Flushed);
    }

    /// The operation whose frame is on its way in part.
    fn being_sent(&self) -> Option<u32> {
        match self.queue.front()?.payload {
            Payload::Operation(flight) if self.sent > 0 => Some(flight),
            _ => None,
        }
    }

    /// Ends the stream both ways, whatever was begun.
    pub(super) fn close(&mut self, core: &mut Core) {
        if self.closed {
            return;
        }
        self.closed = true;
        self.ended = true;
        self.finished = true;
        self.abandon_incoming(core);
        self.forget();
        self.stream.close();
    }

    /// The receive of a message that will never be whole comes back too.
    fn abandon_incoming(&mut self, core: &mut Core) {
        if let Some(Incoming { sink: Sink::Receive(op), .. }) = self.incoming.take() {
            core.return_receive(op);
        }
    }

    /// Says nothing more, not even that it ends.
    pub(super) fn mute(&mut self, core: &mut Core) {
        if self.ended {
            return;
        }
        // Not even a frame that was begun: the stream stays as it is.
        self.finished = true;
        self.closed = true;
        self.forget();
        self.stop(core);
    }

    /// Reads no more and sends no more: what is in the queue belongs to operations that are over now. A
    /// frame that was begun is cut short, and with it the stream.
    fn stop(&mut self, core: &mut Core) {
        self.ended = true;
        self.abandon_incoming(core);
        self.answers = 0;
        self.unacknowledged.clear();
        if self.sent > 0 {
            return self.close(core);
        }
        self.forget();
    }

    /// Nothing is to be sent any more.
    fn forget(&mut self) {
        self.queue.clear();
        self.sent = 0;
    }
}
