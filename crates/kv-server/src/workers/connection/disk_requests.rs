//! A connection's requests to the disk: loads of values that batches read, and writes to be made durable.
//!
//! A batch that reads values that are not in memory is kept here, as its message, until all are loaded; the connection
//! continues with other batches. Each request is answered by one notification, and a connection is not destroyed before
//! the last. A store without disk does not use this.

use std::sync::Arc;

use kv_proto::Condition;
use kv_proto::wire::{Answer, Status};

use super::MAX_BATCHES;
use super::preloaded::{ColdRead, Preloaded};
use crate::engine::persistence::{Load, Persistence, ReadResult, Write, WriteKind};
use crate::engine::session::Session;
use crate::slab::Slab;
use crate::wakeup::Wakeup;
use crate::workers::notify::Notifier;

#[derive(Default)]
pub(super) struct DiskRequests {
    batches: Slab<LoadingBatch>,
    /// The number of notifications to come.
    outstanding: usize,
}

/// A notification from the disk to a connection.
pub(crate) enum Notification {
    /// A write is durable, or refused.
    Written { batch: u32, index: usize, answer: Answer },
    /// A load is complete.
    Loaded { batch: u32, index: usize, loaded: ReadResult },
}

/// A batch that waits for loads.
pub(super) struct LoadingBatch {
    pub(super) message: Vec<u8>,
    pub(super) slot_sequence: Option<u64>,
    pub(super) preloaded: Preloaded,
    missing: usize,
}

/// A write to be made durable; `index` is that of its answer in the batch.
pub(super) struct Submission {
    pub(super) index: usize,
    pub(super) key: Box<[u8]>,
    pub(super) kind: WriteKind,
    pub(super) condition: Condition,
    pub(super) sequence: u64,
}

impl DiskRequests {
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Starts the loads of a batch; returns their number.
    pub(super) fn load(
        &mut self,
        batch: LoadingBatch,
        cold: Vec<ColdRead>,
        persistence: &Persistence,
        notifier: impl Fn() -> Notifier,
    ) -> Result<usize, &'static str> {
        if self.batches.len() > usize::from(MAX_BATCHES) * 2 {
            return Err("too many batches in flight");
        }
        let missing = cold.len();
        let batch = self.batches.insert(LoadingBatch { missing, ..batch });
        self.outstanding += missing;
        for ColdRead { index, key, kind } in cold {
            let notifier = notifier();
            let done = move |loaded| {
                let notification = Notification::Loaded { batch, index, loaded };
                Wakeup::wake_all(notifier.notify(notification));
            };
            persistence.load(Load { key, kind, done: Box::new(done) });
        }
        Ok(missing)
    }

    /// Submits a write. Its answer comes as a notification.
    pub(super) fn submit(
        &mut self,
        batch: u32,
        submission: Submission,
        session: Arc<Session>,
        persistence: &Persistence,
        notifier: Notifier,
    ) {
        let Submission { index, key, kind, condition, sequence } = submission;
        let done = move |answer: Answer| {
            remember(&session, sequence, answer);
            notifier.notify(Notification::Written { batch, index, answer })
        };
        self.outstanding += 1;
        persistence.write(Write { key, kind, condition, done: Box::new(done) });
    }

    /// Counts a notification.
    pub(super) fn notified(&mut self) {
        self.outstanding -= 1;
    }

    /// Handles a completed load; returns its batch after the last one.
    pub(super) fn loaded(
        &mut self,
        row: u32,
        index: usize,
        loaded: ReadResult,
    ) -> Option<LoadingBatch> {
        let batch = self.batches.get_mut(row)?;
        batch.preloaded.set(index, loaded);
        batch.missing -= 1;
        if batch.missing > 0 {
            return None;
        }
        self.batches.remove(row)
    }
}

impl LoadingBatch {
    pub(super) fn new(message: &[u8], slot_sequence: Option<u64>, preloaded: Preloaded) -> Self {
        LoadingBatch { message: message.to_vec(), slot_sequence, preloaded, missing: 0 }
    }
}

/// Records the answer for repeated requests, unless the disk failed and the client may retry.
fn remember(session: &Session, sequence: u64, answer: Answer) {
    match answer.status {
        Status::DiskFull | Status::DiskFailed | Status::Damaged => session.cancel_write(sequence),
        _ => session.finish_write(sequence, answer),
    }
}
