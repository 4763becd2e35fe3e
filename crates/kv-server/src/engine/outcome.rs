//! Reads and writes of both front ends, and their answers, which a session can store.

use std::sync::Arc;

use kv_proto::wire::{Answer, Status};
use kv_store::{Cursor, Key, Metadata, Reservation, ReserveError, Timestamp, WriteError};
use tokio::sync::oneshot;

use crate::engine::persistence::{Load, LoadKind, ReadResult, Write, WriteKind};
use crate::engine::{Engine, PinnedValue};

impl Engine {
    /// Commits a value to a key, if the condition is met.
    pub(crate) fn commit(
        &self,
        key: &[u8],
        reservation: Reservation,
        ttl: Option<u64>,
        condition: kv_proto::Condition,
    ) -> Answer {
        let Ok(key) = Key::new(key) else {
            self.index.cancel(reservation);
            return Answer::new(Status::Denied);
        };
        let now = self.now();
        let (length, expires) = (reservation.length(), self.expiry(ttl, now));
        match self.index.commit(key, reservation, expires, store_condition(condition), now) {
            Ok(committed) => Answer {
                version: committed.version,
                replaced: committed.replaced,
                length,
                ..Answer::new(Status::Ok)
            },
            Err(refused) => write_refused(&refused),
        }
    }

    /// Deletes a key, if the condition is met.
    pub(crate) fn delete(
        &self,
        key: Key<'_>,
        condition: kv_proto::Condition,
        now: Timestamp,
    ) -> Answer {
        match self.index.delete(key, store_condition(condition), now) {
            Ok(Some(version)) => Answer { version, ..Answer::new(Status::Ok) },
            Ok(None) => Answer::new(Status::NotFound),
            Err(refused) => write_refused(&refused),
        }
    }
}

impl Engine {
    /// Does a write, durably if the store has a disk. `record` is called with the answer first, even if the caller has
    /// stopped waiting.
    pub(crate) async fn write(
        self: &Arc<Self>,
        key: &[u8],
        kind: WriteKind,
        condition: kv_proto::Condition,
        record: impl FnOnce(Answer) -> Answer + Send + 'static,
    ) -> Answer {
        let Some(persistence) = self.persistence() else {
            return record(match (kind, Key::new(key)) {
                (WriteKind::Put { reserved, ttl }, _) => {
                    self.commit(key, reserved.take(), ttl, condition)
                }
                (WriteKind::Delete, Ok(key)) => self.delete(key, condition, self.now()),
                (WriteKind::Delete, Err(_)) => Answer::new(Status::Denied),
            });
        };
        let (sender, receiver) = oneshot::channel();
        let done = Box::new(move |answer| {
            let _ = sender.send(record(answer));
            None
        });
        persistence.write(Write { key: key.into(), kind, condition, done });
        receiver.await.unwrap_or(Answer::new(Status::DiskFailed))
    }

    /// Pins the value of a key, loading it from the disk if needed.
    pub(crate) async fn pin(
        self: &Arc<Self>,
        key: Key<'_>,
    ) -> Result<Option<Arc<PinnedValue>>, Status> {
        if let Some(pinned) = self.index.pin(key, self.now()) {
            return Ok(Some(Arc::new(PinnedValue::new(self.clone(), pinned))));
        }
        match self.load(key.as_bytes(), LoadKind::Value).await? {
            Some(ReadResult::Value(value)) => Ok(value),
            _ => Ok(None),
        }
    }

    /// The metadata of a key, in memory or on the disk.
    pub(crate) async fn metadata(
        self: &Arc<Self>,
        key: Key<'_>,
    ) -> Result<Option<Metadata>, Status> {
        if let Some(metadata) = self.index.stat(key, self.now()) {
            return Ok(Some(metadata));
        }
        match self.load(key.as_bytes(), LoadKind::Metadata).await? {
            Some(ReadResult::Metadata(metadata)) => Ok(metadata),
            _ => Ok(None),
        }
    }

    /// Keys with a prefix, and the cursor of the next page.
    pub(crate) async fn keys(
        self: &Arc<Self>,
        prefix: &[u8],
        cursor: u64,
        max_keys: usize,
    ) -> Result<(Vec<(Box<[u8]>, Metadata)>, u64), Status> {
        let max_bytes = usize::MAX;
        match self.load(prefix, LoadKind::Keys { cursor, max_keys, max_bytes }).await? {
            Some(ReadResult::Keys(keys, next)) => Ok((keys, next)),
            _ => {
                let from = Cursor::from(cursor);
                let page = self.index.list(prefix, from, max_keys, max_bytes, self.now());
                Ok((page.keys, page.next.map_or(0, u64::from)))
            }
        }
    }

    /// Loads from the disk, if the store has one.
    async fn load(&self, key: &[u8], kind: LoadKind) -> Result<Option<ReadResult>, Status> {
        let Some(persistence) = self.persistence() else { return Ok(None) };
        let (sender, receiver) = oneshot::channel();
        let done = Box::new(move |loaded| _ = sender.send(loaded));
        persistence.load(Load { key: key.into(), kind, done });
        match receiver.await {
            Ok(ReadResult::Failed(status)) => Err(status),
            Ok(loaded) => Ok(Some(loaded)),
            Err(_) => Err(Status::DiskFailed),
        }
    }
}

pub(crate) fn reserve_refused(error: &ReserveError) -> Answer {
    match *error {
        ReserveError::TooLong { max } => Answer { length: max, ..Answer::new(Status::TooLong) },
        ReserveError::Full { free, .. } => Answer { length: free, ..Answer::new(Status::Full) },
    }
}

pub(crate) fn write_refused(error: &WriteError) -> Answer {
    let (status, version) = match *error {
        WriteError::Exists { version } => (Status::Exists, version),
        WriteError::Absent => (Status::Absent, 0),
        WriteError::OtherVersion { version } => (Status::OtherVersion, version),
        WriteError::IndexFull => (Status::Full, 0),
    };
    Answer { version, ..Answer::new(status) }
}

fn store_condition(condition: kv_proto::Condition) -> kv_store::Condition {
    match condition {
        kv_proto::Condition::Always => kv_store::Condition::Always,
        kv_proto::Condition::IfAbsent => kv_store::Condition::IfAbsent,
        kv_proto::Condition::IfVersion(version) => kv_store::Condition::IfVersion(version),
    }
}
