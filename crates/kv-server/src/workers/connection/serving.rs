//! Executes the requests of one batch. Reads are in `read.rs`, writes in `write.rs`.

use kv_proto::wire::{Answer, Batch, Request, Status};
use kv_store::{Key, Timestamp};

use super::batch_answers::BatchAnswers;
use super::client::Client;
use super::delivery::ReadRange;
use super::disk_requests::Submission;
use super::preloaded::Preloaded;
use super::put_fetches::{CommitParams, PutFetchPlan};
use crate::engine::session::Session;
use crate::workers::context::WorkerContext;

/// The context of one batch.
pub(super) struct Serving<'s> {
    pub(super) client: &'s mut Client,
    pub(super) context: &'s mut WorkerContext,
    pub(super) batch_answers: &'s mut BatchAnswers,
    pub(super) pending: &'s mut PendingWork,
    /// What was preloaded for it, if the store has a disk.
    pub(super) preloaded: Option<&'s mut Preloaded>,
    pub(super) now: Timestamp,
}

/// Work that the answers of a batch wait for, to be started once the batch has its row in the table of pending ones.
#[derive(Default)]
pub(super) struct PendingWork {
    pub(super) plans: Vec<PutFetchPlan>,
    pub(super) submissions: Vec<Submission>,
}

impl PendingWork {
    pub(super) fn len(&self) -> usize {
        self.plans.len() + self.submissions.len()
    }

    /// Cancels all of it: the writes may be retried.
    #[cold]
    pub(super) fn abandon(self, session: &Session) {
        self.plans.iter().for_each(|plan| plan.abandon(session));
        self.submissions.iter().for_each(|write| session.cancel_write(write.sequence));
    }
}

impl Serving<'_> {
    /// Serves all requests; adds their answers.
    #[inline]
    pub(super) fn serve_all(&mut self, batch: Batch<'_>) -> Result<(), &'static str> {
        for request in batch {
            let answer = self.serve(request?)?;
            self.batch_answers.answers.push(answer);
        }
        Ok(())
    }

    fn serve(&mut self, request: Request<'_>) -> Result<Answer, &'static str> {
        if !self.batch_answers.limits.claim(request.inline_len()) {
            return Err("the answers of a batch exceed its capacity");
        }
        // With a disk it was checked before the loads.
        let checked = match &self.preloaded {
            None => self.client.check(&request),
            Some(preloaded) => preloaded.check(self.batch_answers.answers.len()),
        };
        if let Err(status) = checked {
            return Ok(Answer::new(status));
        }
        match request {
            Request::Get { key, offset, length, destination, open_handle, checksum } => {
                let in_place = self.batch_answers.in_place.allowed;
                let range = ReadRange { offset, length, destination, checksum, in_place };
                Ok(self.get(valid(key)?, range, open_handle))
            }
            Request::Read { handle, offset, length, destination, checksum } => {
                let range = ReadRange { offset, length, destination, checksum, in_place: false };
                Ok(self.read(handle, &range))
            }
            Request::Close { handle } => {
                let known = self.client.handles.close(handle);
                Ok(Answer::new(if known { Status::Ok } else { Status::NoHandle }))
            }
            Request::Put { key, length, source, ttl, condition, sequence } => {
                valid(key)?;
                let key = key.into();
                self.put(length, source, CommitParams { key, ttl, condition, sequence })
            }
            Request::Begin { length } => Ok(self.begin(length)),
            Request::Chunk { handle, offset, length, source } => {
                self.chunk(handle, offset, length, source)
            }
            Request::Commit { handle, key, ttl, condition, sequence } => {
                valid(key)?;
                let key = key.into();
                Ok(self.commit(handle, CommitParams { key, ttl, condition, sequence }))
            }
            Request::Delete { key, condition, sequence } => {
                Ok(self.delete(valid(key)?, condition, sequence))
            }
            Request::Stat { key } => Ok(self.stat(valid(key)?)),
            Request::List { prefix, cursor, length } => Ok(self.list(prefix, cursor, length)),
        }
    }

    #[inline]
    pub(super) fn has_disk(&self) -> bool {
        self.preloaded.is_some()
    }
}

fn valid(key: &[u8]) -> Result<Key<'_>, &'static str> {
    Key::new(key).map_err(|_| "a key is empty or too long")
}
