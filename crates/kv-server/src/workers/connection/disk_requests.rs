//! What a connection has asked the disk for: values that batches read, and writes that are to be durable.
//!
//! A batch that reads what memory does not have is kept here, as its message, until all of it was loaded; the connection
//! goes on with others. Each request is answered by one notification, and a connection is not taken apart before the
//! last has come. A store without a disk comes by here never.

use std::sync::Arc;

use kv_proto::Condition;
use kv_proto::wire::{Answer, Status};

use super::BATCHES;
use super::preloaded::{Cold, Preloaded};
use crate::engine::journal::{Journal, Load, Loaded, Write, WriteKind};
use crate::engine::session::Session;
use crate::rows::Rows;
use crate::wakeup::Wakeup;
use crate::workers::notify::Notifier;

#[derive(Default)]
pub(super) struct DiskRequests {
    batches: Rows<LoadingBatch>,
    /// How many notifications are to come.
    outstanding: usize,
}

/// What the disk reports to a connection.
pub(crate) enum Notification {
    /// A write of a batch's is durable, or refused.
    Written { batch: u32, index: usize, answer: Answer },
    /// What a batch waits for was loaded.
    Loaded { batch: u32, index: usize, loaded: Loaded },
}

/// A batch that waits for values from the disk.
pub(super) struct LoadingBatch {
    pub(super) message: Vec<u8>,
    pub(super) completion_flag: Option<u64>,
    pub(super) preloaded: Preloaded,
    missing: usize,
}

/// A write that is to become durable, as the answer of this index.
pub(super) struct Submission {
    pub(super) index: usize,
    pub(super) key: Box<[u8]>,
    pub(super) what: WriteKind,
    pub(super) condition: Condition,
    pub(super) sequence: u64,
}

impl DiskRequests {
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Loads what a batch reads and memory does not have; returns how much that is.
    pub(super) fn load(
        &mut self,
        batch: LoadingBatch,
        cold: Vec<Cold>,
        journal: &Journal,
        notifier: impl Fn() -> Notifier,
    ) -> Result<usize, &'static str> {
        if self.batches.len() > usize::from(BATCHES) * 2 {
            return Err("it has more batches in flight than it may");
        }
        let missing = cold.len();
        let batch = self.batches.insert(LoadingBatch { missing, ..batch });
        self.outstanding += missing;
        for Cold { index, key, wanted } in cold {
            let notifier = notifier();
            let done = move |loaded| {
                let notification = Notification::Loaded { batch, index, loaded };
                Wakeup::wake_all(notifier.notify(notification));
            };
            journal.load(Load { key, wanted, done: Box::new(done) });
        }
        Ok(missing)
    }

    /// Has a write made durable. Its answer comes as a notification.
    pub(super) fn submit(
        &mut self,
        batch: u32,
        submission: Submission,
        session: Arc<Session>,
        journal: &Journal,
        notifier: Notifier,
    ) {
        let Submission { index, key, what, condition, sequence } = submission;
        let done = move |answer: Answer| {
            remember(&session, sequence, answer);
            notifier.notify(Notification::Written { batch, index, answer })
        };
        self.outstanding += 1;
        journal.write(Write { key, what, condition, done: Box::new(done) });
    }

    /// A notification has come.
    pub(super) fn notified(&mut self) {
        self.outstanding -= 1;
    }

    /// Something was loaded; returns its batch if that was the last it waits for.
    pub(super) fn loaded(
        &mut self,
        row: u32,
        index: usize,
        loaded: Loaded,
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
    pub(super) fn new(message: &[u8], completion_flag: Option<u64>, preloaded: Preloaded) -> Self {
        LoadingBatch { message: message.to_vec(), completion_flag, preloaded, missing: 0 }
    }
}

/// Whoever asks again gets the same answer, unless the disk did not take it.
fn remember(session: &Session, sequence: u64, answer: Answer) {
    match answer.status {
        Status::DiskFull | Status::DiskFailed | Status::Damaged => session.undone(sequence),
        _ => session.done(sequence, answer),
    }
}
