//! What is known of a key: where its value is, or that it has none.

use crate::change::{KeyState, RemovalCause, Shard};
use crate::metadata::Metadata;
use crate::position::Position;

/// A key's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// The shard of the key, if the store has shards.
    pub(crate) shard: Option<Shard>,
    pub(crate) metadata: Metadata,
    /// Its record in the log.
    pub(crate) at: Position,
    /// The length of the record.
    pub(crate) bytes: u32,
    /// The number of the value's file, if it is in one of its own.
    pub(crate) long: Option<u64>,
}

/// A key that has no value any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemovedRow {
    pub(crate) shard: Option<Shard>,
    pub(crate) version: u64,
    pub(crate) cause: RemovalCause,
    /// Its record in the log.
    pub(crate) at: Position,
}

impl RemovedRow {
    /// The shard whose copies must learn of it. Each copy lets values expire by itself.
    pub(crate) fn kept_in(&self) -> Option<Shard> {
        self.shard.filter(|_| self.cause != RemovalCause::Expiry)
    }

    pub(crate) fn state(&self) -> KeyState {
        KeyState::Removed { version: self.version, cause: self.cause }
    }
}
