//! Writes, and what came of them: answers that a session can remember, whichever front end they came from.

use std::sync::Arc;

use kv_proto::wire::{Answer, Status};
use kv_store::{Cursor, Facts, Key, Moment, Reservation, ReserveError, WriteError};
use tokio::sync::oneshot;

use crate::engine::journal::{Load, Loaded, Wanted, Write, WriteKind};
use crate::engine::{Engine, Held};

impl Engine {
    /// A value becomes a key's, if the condition holds.
    pub(crate) fn commit(
        &self,
        key: &[u8],
        room: Reservation,
        ttl: Option<u64>,
        condition: kv_proto::Condition,
    ) -> Answer {
        let Ok(key) = Key::new(key) else {
            self.store.cancel(room);
            return Answer::new(Status::Denied);
        };
        let now = self.now();
        let (length, expires) = (room.length(), self.expiry(ttl, now));
        match self.store.commit(key, room, expires, translate(condition), now) {
            Ok(committed) => Answer {
                version: committed.version,
                replaced: committed.replaced,
                length,
                ..Answer::new(Status::Ok)
            },
            Err(refused) => unmet(&refused),
        }
    }

    /// A key goes, if the condition holds.
    pub(crate) fn delete(
        &self,
        key: Key<'_>,
        condition: kv_proto::Condition,
        now: Moment,
    ) -> Answer {
        match self.store.delete(key, translate(condition), now) {
            Ok(Some(version)) => Answer { version, ..Answer::new(Status::Ok) },
            Ok(None) => Answer::new(Status::NotFound),
            Err(refused) => unmet(&refused),
        }
    }
}

impl Engine {
    /// Does a write, durable where there is a disk. `noted` is called with the answer first, also if nobody waits for it.
    pub(crate) async fn write(
        self: &Arc<Self>,
        key: &[u8],
        what: WriteKind,
        condition: kv_proto::Condition,
        noted: impl FnOnce(Answer) -> Answer + Send + 'static,
    ) -> Answer {
        let Some(journal) = self.journal() else {
            return noted(match (what, Key::new(key)) {
                (WriteKind::Put { staged, ttl }, _) => {
                    self.commit(key, staged.take(), ttl, condition)
                }
                (WriteKind::Delete, Ok(key)) => self.delete(key, condition, self.now()),
                (WriteKind::Delete, Err(_)) => Answer::new(Status::Denied),
            });
        };
        let (tell, told) = oneshot::channel();
        let done = Box::new(move |answer| {
            let _ = tell.send(noted(answer));
            None
        });
        journal.write(Write { key: key.into(), what, condition, done });
        told.await.unwrap_or(Answer::new(Status::DiskFailed))
    }

    /// The value of a key, held, wherever it is.
    pub(crate) async fn hold(self: &Arc<Self>, key: Key<'_>) -> Result<Option<Arc<Held>>, Status> {
        if let Some(pinned) = self.store.pin(key, self.now()) {
            return Ok(Some(Arc::new(Held::new(self.clone(), pinned))));
        }
        match self.load(key.as_bytes(), Wanted::Value).await? {
            Some(Loaded::Value(held)) => Ok(held),
            _ => Ok(None),
        }
    }

    /// What is known of a key, wherever it is.
    pub(crate) async fn facts(self: &Arc<Self>, key: Key<'_>) -> Result<Option<Facts>, Status> {
        if let Some(facts) = self.store.stat(key, self.now()) {
            return Ok(Some(facts));
        }
        match self.load(key.as_bytes(), Wanted::Facts).await? {
            Some(Loaded::Facts(facts)) => Ok(facts),
            _ => Ok(None),
        }
    }

    /// Keys with a prefix, and where to go on.
    pub(crate) async fn keys(
        self: &Arc<Self>,
        prefix: &[u8],
        cursor: u64,
        most: usize,
    ) -> Result<(Vec<(Box<[u8]>, Facts)>, u64), Status> {
        let bytes = usize::MAX;
        match self.load(prefix, Wanted::Keys { cursor, most, bytes }).await? {
            Some(Loaded::Keys(keys, next)) => Ok((keys, next)),
            _ => {
                let from = Cursor::from(cursor);
                let page = self.store.list(prefix, from, most, bytes, self.now());
                Ok((page.keys, page.next.map_or(0, u64::from)))
            }
        }
    }

    /// Asks the disk, if there is one.
    async fn load(&self, key: &[u8], wanted: Wanted) -> Result<Option<Loaded>, Status> {
        let Some(journal) = self.journal() else { return Ok(None) };
        let (tell, told) = oneshot::channel();
        let done = Box::new(move |loaded| _ = tell.send(loaded));
        journal.load(Load { key: key.into(), wanted, done });
        match told.await {
            Ok(Loaded::Failed(status)) => Err(status),
            Ok(loaded) => Ok(Some(loaded)),
            Err(_) => Err(Status::DiskFailed),
        }
    }
}

/// Why there is no room.
pub(crate) fn no_room(why: &ReserveError) -> Answer {
    match *why {
        ReserveError::TooLong { max } => Answer { length: max, ..Answer::new(Status::TooLong) },
        ReserveError::Full { free, .. } => Answer { length: free, ..Answer::new(Status::Full) },
    }
}

pub(crate) fn unmet(refused: &WriteError) -> Answer {
    let (status, version) = match *refused {
        WriteError::Exists { version } => (Status::Exists, version),
        WriteError::Absent => (Status::Absent, 0),
        WriteError::OtherVersion { version } => (Status::OtherVersion, version),
        WriteError::IndexFull => (Status::Full, 0),
    };
    Answer { version, ..Answer::new(status) }
}

/// The same condition, as the store has it.
fn translate(condition: kv_proto::Condition) -> kv_store::Condition {
    match condition {
        kv_proto::Condition::Always => kv_store::Condition::Always,
        kv_proto::Condition::IfAbsent => kv_store::Condition::IfAbsent,
        kv_proto::Condition::IfVersion(version) => kv_store::Condition::IfVersion(version),
    }
}
