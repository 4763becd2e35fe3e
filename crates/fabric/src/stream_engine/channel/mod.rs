//! One stream of a lane: frames out (`outgoing.rs`), frames in (`incoming.rs`), and how it ends.

mod incoming;
mod outgoing;

use std::collections::VecDeque;

use super::frame::{Header, Kind, failure_code, failure_from_code};
use super::lane_state::LaneState;
use super::stream::Stream;
use crate::iovec::IoVec;
use crate::op::Failure;
use incoming::{Incoming, Sink};
use outgoing::{MAX_PARTS, Outgoing, Payload};

pub(super) struct StreamChannel<S> {
    pub(super) stream: S,
    parts: Vec<IoVec>,

    /// Frames to send; `sent` bytes of the first one are sent already.
    queue: VecDeque<Outgoing>,
    sent: usize,
    /// Operations whose counted frames are sent and not acknowledged, and the number of acknowledged ones.
    unacknowledged: VecDeque<u32>,
    acknowledged: u32,
    /// The number of answers in the queue.
    answers: usize,

    /// Bytes read ahead; `unread.0..unread.1` are not processed yet.
    buffer: Box<[u8]>,
    unread: (usize, usize),
    incoming: Option<Incoming>,
    /// Numbers of counted frames: executed, and acknowledged to the peer.
    executed: u32,
    reported: u32,
    /// Whether the last executed frame was a write without immediate data: few owners post an answer, which would acknowledge
    /// it, since they learn nothing of it.
    executed_write: bool,
    /// The number of polls since there is something to report to the peer.
    polls_unreported: u32,
    /// Nothing more is read or queued.
    ended: bool,
    /// The end was sent to the peer.
    finished: bool,
    closed: bool,
    /// It sends the reason of the end to the peer.
    pub(super) sends_reason: bool,
    /// Nothing more can be written. What the peer sent before may still be read.
    write_failed: bool,
    /// The stream failed, or the peer ended it.
    pub(super) lost: Option<Failure>,
}

impl<S: Stream> StreamChannel<S> {
    pub(super) fn new(stream: S) -> Self {
        StreamChannel {
            stream,
            parts: Vec::with_capacity(MAX_PARTS),
            queue: VecDeque::new(),
            sent: 0,
            unacknowledged: VecDeque::new(),
            acknowledged: 0,
            answers: 0,
            buffer: vec![0; S::READ_AHEAD_BYTES.max(Header::MAX_BYTES)].into(),
            unread: (0, 0),
            incoming: None,
            executed: 0,
            reported: 0,
            executed_write: false,
            polls_unreported: 0,
            ended: false,
            finished: false,
            closed: false,
            sends_reason: false,
            write_failed: false,
            lost: None,
        }
    }

    /// Whether bytes wait to be sent.
    #[inline]
    pub(super) fn has_backlog(&self) -> bool {
        !self.queue.is_empty() || self.stream.has_unsent()
    }

    /// Whether there is nothing to send, and nothing to report.
    #[inline]
    pub(super) fn is_idle(&self, state: &LaneState) -> bool {
        let reported = self.executed == self.reported && !state.must_report();
        !self.has_backlog() && reported && self.lost.is_none()
    }

    /// The number of queued frames, to choose the least busy stream.
    pub(super) fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Queues a frame for an operation in flight.
    #[inline]
    pub(super) fn queue(&mut self, header: Header, id: u32) {
        self.push(header, Payload::Operation(id));
    }

    #[inline]
    fn push(&mut self, header: Header, payload: Payload) {
        if self.write_failed || self.closed {
            return;
        }
        self.queue.push_back(Outgoing { header, bytes: [0; Header::MAX_BYTES], payload });
    }

    /// Refuses `request`, or the frame after those acknowledged, and ends the lane.
    fn refuse(
        &mut self,
        failure: Failure,
        request: Option<u32>,
        state: &mut LaneState,
    ) -> Result<(), Failure> {
        let header = Header {
            number: request.unwrap_or(0),
            flag: request.is_none(),
            length: failure_code(failure),
            ..Header::new(Kind::Fail)
        };
        self.stop(state);
        // After an incomplete frame nothing can be sent.
        if !self.closed && !self.write_failed {
            self.sends_reason = true;
            self.push(header, Payload::None);
        }
        state.fail(None, failure, Failure::Flushed);
        Ok(())
    }

    /// The peer refused one of our operations.
    fn failed(&mut self, header: Header, state: &mut LaneState) {
        let cause = match header.flag {
            true => self.unacknowledged.front().copied().or_else(|| self.being_sent()),
            false => Some(header.number),
        };
        self.stop(state);
        state.fail(cause, failure_from_code(header.length), Failure::Flushed);
    }

    /// The operation whose frame is partly sent.
    fn being_sent(&self) -> Option<u32> {
        match self.queue.front()?.payload {
            Payload::Operation(id) if self.sent > 0 => Some(id),
            _ => None,
        }
    }

    /// Closes both directions of the stream immediately.
    pub(super) fn close(&mut self, state: &mut LaneState) {
        if self.closed {
            return;
        }
        self.closed = true;
        self.ended = true;
        self.finished = true;
        self.return_incoming_receive(state);
        self.clear_queue();
        self.stream.close();
    }

    /// Returns the receive of an incomplete message.
    fn return_incoming_receive(&mut self, state: &mut LaneState) {
        if let Some(Incoming { sink: Sink::Receive(op), .. }) = self.incoming.take() {
            state.return_receive(op);
        }
    }

    /// Sends nothing more, not even the end.
    pub(super) fn stop_silently(&mut self, state: &mut LaneState) {
        if self.ended {
            return;
        }
        // Not even the rest of a frame: the stream stays open.
        self.finished = true;
        self.closed = true;
        self.clear_queue();
        self.stop(state);
    }

    /// Reads and sends nothing more: the operations of queued frames are finished now. If a
    /// frame is partly sent, the stream is closed.
    fn stop(&mut self, state: &mut LaneState) {
        self.ended = true;
        self.return_incoming_receive(state);
        self.answers = 0;
        self.unacknowledged.clear();
        if self.sent > 0 {
            return self.close(state);
        }
        self.clear_queue();
    }

    /// Discards all queued frames.
    fn clear_queue(&mut self) {
        self.queue.clear();
        self.sent = 0;
    }
}
