//! Operations come back from lanes: what each means for the caller's.

use super::Core;
use crate::link::messages::outgoing::Draft;
use crate::link::operations::operation::Tail;
use crate::link::operations::part::{Part, PartKind, as_it_was};
use crate::link::protocol::header::Stream;
use crate::link::rails::rail::Lost;
use crate::op::{Completion, Done, Failure, Work};

impl Core {
    #[inline]
    pub(in crate::link) fn complete(&mut self, rail: u8, completion: Completion) {
        let Completion { token, outcome, work } = completion;
        let Some(part) = self.parts.remove(token as u32) else { return };
        self.completions.stop_time(token as u32, outcome.is_ok());
        if let Some(connection) = &mut self.rails[usize::from(rail)].connection {
            connection.out -= 1;
            connection.bytes_out -= part.bytes;
            connection.arrived += u64::from(outcome.is_ok() && part.what.is_message());
        }
        match outcome {
            Ok(_) => self.placed(rail, part, work),
            Err(failure) => self.lost(rail, Lost { part, failure, work }),
        }
    }

    /// It took effect.
    #[inline]
    pub(in crate::link) fn placed(&mut self, rail: u8, part: Part, work: Work) {
        match part.what {
            PartKind::Whole { token, window } => {
                self.completions.finish(as_it_was(token, window, work), Ok(Done::Placed));
            }
            PartKind::Piece(piece) => {
                if let Some(operation) = self.operations.get_mut(piece.operation) {
                    operation.pieces -= 1;
                }
                self.progress(piece.operation);
            }
            PartKind::Credit => self.give_back(rail, work),
            PartKind::Message { stream, sequence } => {
                self.give_back(rail, work);
                if let Some(number) = self.outgoing[stream as usize].arrived(sequence) {
                    if let Some(operation) = self.operations.get_mut(number) {
                        operation.messages -= 1;
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
        self.rails[usize::from(rail)].unconfirmed.push(lost);
        self.die(rail, cause(failure));
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
            PartKind::Probe => self.die(part.rail, "the lane cannot be probed"),
        }
    }

    /// An operation has got further: whether it is over, or what comes next.
    pub(in crate::link) fn progress(&mut self, number: u32) {
        let Some(operation) = self.operations.get(number) else { return };
        if operation.pieces > 0 || operation.cut < operation.total {
            return;
        }
        // Its bytes are placed: a number that waited for that may go again.
        if let Some(at) = self.held.iter().position(|(operation, _)| *operation == number) {
            let (_, sequence) = self.held.swap_remove(at);
            return self.message_again(Stream::Messages, sequence);
        }
        if operation.messages > 0 {
            return;
        }
        match (operation.failure, operation.tail) {
            (Some(failure), _) => self.finish_flight(number, Err(failure)),
            (None, Tail::Nothing) => self.finish_flight(number, Ok(Done::Placed)),
            (None, Tail::Notice) => self.draft_notice(number),
            (None, Tail::Answer) => {}
        }
    }

    /// The number of a write shall follow.
    pub(in crate::link) fn draft_notice(&mut self, number: u32) {
        if let Some(operation) = self.operations.get_mut(number) {
            operation.tail = Tail::Nothing;
            operation.messages += 1;
            self.outgoing[Stream::Messages as usize].push(Draft::Notice(number));
        }
    }

    pub(in crate::link) fn finish_flight(&mut self, number: u32, outcome: Result<Done, Failure>) {
        if let Some(operation) = self.operations.remove(number) {
            self.completions.finish_timed(operation.op, outcome, operation.timed);
        }
    }
}

/// Why a lane died, for people.
pub(in crate::link) fn cause(failure: Failure) -> &'static str {
    match failure {
        Failure::PeerGone => "the peer does not answer by it: the wire, a port or the peer is gone",
        Failure::Access => "the peer refused an access: the region may be gone",
        Failure::Local => "the device failed",
        Failure::NotReady => "the peer had no receive",
        Failure::ProtocolError => "the peer broke the lane's protocol",
        Failure::TooLong => "a message was longer than its receive",
        Failure::Flushed | Failure::Unknown | Failure::Unsupported => "its queue ended at this end",
    }
}
