//! A write that its caller may repeat.

use std::sync::Arc;

use kv_proto::wire::{Answer, Status as WireStatus};
use kv_proto::{WriteId, v1};
use tonic::Status;

use super::status;
use crate::engine::session::{Session, Sessions, WINDOW, WriteStart};
use access::Permissions;

/// Whether a write is to be executed, or was before.
pub(super) enum RetryableStart {
    New(RetryableWrite),
    Done(Answer),
}

/// A write in flight. If it is dropped without an answer, nothing was changed, and it may be retried.
pub(super) struct RetryableWrite {
    write: Option<(Arc<Session>, u64)>,
}

impl RetryableWrite {
    /// Starts a write. One without a write id is always executed.
    pub(super) fn begin(
        sessions: &Sessions,
        permissions: &Permissions,
        write_id: Option<v1::WriteId>,
    ) -> Result<RetryableStart, Status> {
        let Some(write_id) = write_id else {
            return Ok(RetryableStart::New(RetryableWrite { write: None }));
        };
        let WriteId { session, sequence } = WriteId::try_from(write_id)?;
        let session =
            sessions.find(&session, permissions.identity_name()).ok_or_else(status::no_session)?;
        session.leave();
        match session.start_write(sequence) {
            WriteStart::New => {
                Ok(RetryableStart::New(RetryableWrite { write: Some((session, sequence)) }))
            }
            WriteStart::Done(answer) => Ok(RetryableStart::Done(answer)),
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

impl Drop for RetryableWrite {
    fn drop(&mut self) {
        if let Some((session, sequence)) = self.write.take() {
            session.cancel_write(sequence);
        }
    }
}
