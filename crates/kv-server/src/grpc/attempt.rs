//! A write that its caller may ask for again.

use std::sync::Arc;

use kv_proto::wire::{Answer, Status as Said};
use kv_proto::{Attempt, v1};
use tonic::Status;

use super::status;
use crate::engine::session::{Session, Sessions, WINDOW, WriteStart};
use access::Pass;

/// Whether a write is to be done now, or was before.
pub(super) enum Begun {
    Now(Attempted),
    Before(Answer),
}

/// A write in flight. One that is dropped without an answer came to nothing, and may be asked for again.
pub(super) struct Attempted {
    turn: Option<(Arc<Session>, u64)>,
}

impl Attempted {
    /// Asks whether it is this write's turn. One without an attempt is always done.
    pub(super) fn begin(
        sessions: &Sessions,
        pass: &Pass,
        attempt: Option<v1::Attempt>,
    ) -> Result<Begun, Status> {
        let Some(attempt) = attempt else { return Ok(Begun::Now(Attempted { turn: None })) };
        let Attempt { session, sequence } = Attempt::try_from(attempt)?;
        let session = sessions.find(&session, pass.identity()).ok_or_else(status::no_session)?;
        session.leave();
        match session.start_write(sequence) {
            WriteStart::New => Ok(Begun::Now(Attempted { turn: Some((session, sequence)) })),
            WriteStart::Done(answer) => Ok(Begun::Before(answer)),
            WriteStart::InFlight => Err(status::in_flight()),
            WriteStart::Forgotten => Err(status::forgotten(sequence, WINDOW)),
        }
    }

    /// Something of it came: its session is in use.
    pub(super) fn touch(&self) {
        if let Some((session, _)) = &self.turn {
            session.leave();
        }
    }

    /// It was done, or refused for good. What a full store refuses may be taken another time.
    pub(super) fn done(mut self, answer: Answer) -> Answer {
        let disk = matches!(answer.status, Said::DiskFull | Said::DiskFailed | Said::Damaged);
        let passes = disk || answer.status == Said::Full;
        if !passes && let Some((session, sequence)) = self.turn.take() {
            session.finish_write(sequence, answer);
            session.leave();
        }
        answer
    }
}

impl Drop for Attempted {
    fn drop(&mut self) {
        if let Some((session, sequence)) = self.turn.take() {
            session.cancel_write(sequence);
        }
    }
}
