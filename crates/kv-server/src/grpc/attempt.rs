//! A write that its caller may repeat.

use std::sync::Arc;

use kv_proto::wire::{Answer, Status as WireStatus};
use kv_proto::{Attempt, v1};
use tonic::Status;

use super::status;
use crate::engine::session::{Session, Sessions, WINDOW, WriteStart};
use access::Pass;

/// Whether a write is to be executed, or was before.
pub(super) enum AttemptStart {
    New(WriteAttempt),
    Done(Answer),
}

/// A write in flight. If it is dropped without an answer, nothing was changed, and it may be retried.
pub(super) struct WriteAttempt {
    write: Option<(Arc<Session>, u64)>,
}

impl WriteAttempt {
    /// Starts a write. One without an attempt is always executed.
    pub(super) fn begin(
        sessions: &Sessions,
        pass: &Pass,
        attempt: Option<v1::Attempt>,
    ) -> Result<AttemptStart, Status> {
        let Some(attempt) = attempt else {
            return Ok(AttemptStart::New(WriteAttempt { write: None }));
        };
        let Attempt { session, sequence } = Attempt::try_from(attempt)?;
        let session = sessions.find(&session, pass.identity()).ok_or_else(status::no_session)?;
        session.leave();
        match session.start_write(sequence) {
            WriteStart::New => {
                Ok(AttemptStart::New(WriteAttempt { write: Some((session, sequence)) }))
            }
            WriteStart::Done(answer) => Ok(AttemptStart::Done(answer)),
            WriteStart::InFlight => Err(status::in_flight()),
            WriteStart::Forgotten => Err(status::forgotten(sequence, WINDOW)),
        }
    }

    /// Records that its session is in use.
    pub(super) fn touch(&self) {
        if let Some((session, _)) = &self.write {
            session.leave();
        }
    }

    /// Records the answer, unless it is temporary: a write that was refused because memory or disk was full, or the disk
    /// failed, may be retried.
    pub(super) fn done(mut self, answer: Answer) -> Answer {
        let disk = matches!(
            answer.status,
            WireStatus::DiskFull | WireStatus::DiskFailed | WireStatus::Damaged
        );
        let is_temporary = disk || answer.status == WireStatus::Full;
        if !is_temporary && let Some((session, sequence)) = self.write.take() {
            session.finish_write(sequence, answer);
            session.leave();
        }
        answer
    }
}

impl Drop for WriteAttempt {
    fn drop(&mut self) {
        if let Some((session, sequence)) = self.write.take() {
            session.cancel_write(sequence);
        }
    }
}
