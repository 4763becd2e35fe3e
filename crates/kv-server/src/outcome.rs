//! Writes, and what came of them: answers that a session can remember, whatever door they came in by.

use kv_proto::wire::{Answer, Status};
use kv_store::{Key, Moment, NoRoom, Refused, Reservation};

use crate::engine::Engine;

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

/// Why there is no room.
pub(crate) fn no_room(why: &NoRoom) -> Answer {
    match *why {
        NoRoom::TooLong { most } => Answer { length: most, ..Answer::new(Status::TooLong) },
        NoRoom::Full { free, .. } => Answer { length: free, ..Answer::new(Status::Full) },
    }
}

fn unmet(refused: &Refused) -> Answer {
    let (status, version) = match *refused {
        Refused::Exists { version } => (Status::Exists, version),
        Refused::Absent => (Status::Absent, 0),
        Refused::OtherVersion { version } => (Status::OtherVersion, version),
        Refused::IndexFull => (Status::Full, 0),
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
