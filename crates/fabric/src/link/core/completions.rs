//! Operations come back from lanes: what each means for the caller's.

use super::Core;
use crate::link::messages::Draft;
use crate::link::operations::{Next, Part, PartKind, as_it_was};
use crate::link::protocol::header::Stream;
use crate::link::rails::{Lost, RECEIVE};
use crate::op::{Completion, Done, Failure, Work};

impl Core {
    #[inline]
    pub(super) fn poll_rail(&mut self, rail: u8) {
        let done = self.completions.buffer();
        let before = done.len();
        let Some(lane) = self.rails.lane_mut(rail) else { return };
        if lane.poll(self.now, done) {
            let rest = self.finish_whole(rail, before);
            if rest < self.completions.buffer().len() {
                self.sort_out(rail, rest);
            }
        }
        self.refill(rail);
    }

    /// What came back from a lane is not all the caller's.
    fn sort_out(&mut self, rail: u8, from: usize) {
        let mut batch = self.completions.take_batch(from);
        for completion in batch.drain(..) {
            match completion.token & RECEIVE {
                0 => self.complete(rail, completion),
                _ => self.receive(rail, completion),
            }
        }
        self.completions.sorted(batch);
    }

    #[inline]
    fn complete(&mut self, rail: u8, completion: Completion) {
        let Completion { token, outcome, work } = completion;
        let Some(part) = self.operations.take_part(token as u32) else { return };
        self.completions.stop_time(token as u32, outcome.is_ok());
        if let Some(lane) = self.rails.lane_mut(rail) {
            lane.remove(part.bytes);
            if outcome.is_ok() && part.what.is_message() {
                lane.message_arrived();
            }
        }
        match outcome {
            Ok(_) => self.placed(rail, part, work),
            Err(failure) => self.lost(rail, Lost { part, failure, work }),
        }
    }

    /// It took effect.
    #[inline]
    pub(super) fn placed(&mut self, rail: u8, part: Part, work: Work) {
        match part.what {
            PartKind::Whole { token, window } => {
                self.completions.finish(as_it_was(token, window, work), Ok(Done::Placed));
            }
            PartKind::Piece(piece) => {
                if let Some(operation) = self.operations.get_mut(piece.operation) {
                    operation.piece_placed();
                }
                self.progress(piece.operation);
            }
            PartKind::Credit => self.give_back(rail, work),
            PartKind::Message { stream, sequence } => {
                self.give_back(rail, work);
                if let Some(number) = self.messages.outgoing_mut(stream).arrived(sequence) {
                    if let Some(operation) = self.operations.get_mut(number) {
                        operation.message_arrived();
                    }
                    self.progress(number);
                }
            }
            PartKind::Probe => self.probed(rail),
        }
    }

    /// It did not, as far as this end knows: what to do is seen when the lane is fenced.
    #[cold]
    fn lost(&mut self, rail: u8, lost: Lost) {
        let failure = lost.failure;
        if failure == Failure::Unsupported {
            return self.unsupported(lost);
        }
        self.rails.get_mut(rail).lose(lost);
        self.fail_rail(rail, cause(failure));
    }

    fn unsupported(&mut self, lost: Lost) {
        let Lost { part, failure, work } = lost;
        match part.what {
            PartKind::Whole { token, window } => {
                self.completions.finish(as_it_was(token, window, work), Err(failure));
            }
            PartKind::Piece(piece) => self.abandon(&piece, failure),
            PartKind::Message { .. } | PartKind::Credit => {
                self.fail_link(Failure::Local, "a lane does not take the link's own messages");
            }
            PartKind::Probe => self.fail_rail(part.rail, "the lane cannot be probed"),
        }
    }

    /// An operation has got further: whether it is over, or what comes next.
    pub(super) fn progress(&mut self, number: u32) {
        let Some(operation) = self.operations.get(number).filter(|f| f.is_placed()) else { return };
        let next = operation.next();
        // Its bytes are placed: a notice that waited for that may go again.
        if let Some(sequence) = self.operations.take_held(number) {
            return self.message_again(Stream::Messages, sequence);
        }
        match next {
            Next::Wait => {}
            Next::Notice => self.draft_notice(number),
            Next::Finish(outcome) => self.finish_operation(number, outcome),
        }
    }

    /// The immediate data of a write shall follow.
    pub(super) fn draft_notice(&mut self, number: u32) {
        if let Some(operation) = self.operations.get_mut(number) {
            operation.begin_notice();
            self.messages.push(Draft::Notice(number));
        }
    }

    pub(super) fn finish_operation(&mut self, number: u32, outcome: Result<Done, Failure>) {
        if let Some(operation) = self.operations.remove(number) {
            let (op, timed) = operation.into_op();
            self.completions.finish_timed(op, outcome, timed);
        }
    }
}

/// Why a lane died, for people.
pub(super) fn cause(failure: Failure) -> &'static str {
    match failure {
        Failure::PeerGone => "no answer from the peer: its cable, port or process is down",
        Failure::Access => "the peer refused an access: the region may be deregistered",
        Failure::Local => "the device failed",
        Failure::NotReady => "the peer had posted no receive",
        Failure::ProtocolError => "the peer broke the lane's protocol",
        Failure::TooLong => "a message was longer than its receive",
        Failure::Flushed | Failure::Unknown | Failure::Unsupported => {
            "its queue was closed at this end"
        }
    }
}
