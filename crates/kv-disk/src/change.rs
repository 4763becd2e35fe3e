//! Changes to be saved.

use crate::metadata::Metadata;

/// One change; several are saved together.
#[derive(Debug, Clone, Copy)]
pub enum Change<'c> {
    /// Sets the value of a key.
    Put {
        /// The part of the key space that the key belongs to, if the store has shards.
        shard: Option<Shard>,
        /// The key.
        key: &'c [u8],
        /// Its version.
        version: u64,
        /// When it expires, in milliseconds since 1970.
        expires: Option<u64>,
        /// Its length in bytes.
        length: u64,
        /// Its bytes.
        body: Body<'c>,
    },
    /// Removes the value of a key. In a shard, the removal is kept until [`forget_removals`](crate::Writer::forget_removals),
    /// so that a copy of the shard that missed it learns of it. Versions in a shard are unique, and each change has a later one
    /// than those before.
    Remove {
        /// The shard of the key.
        shard: Option<Shard>,
        /// The key.
        key: &'c [u8],
        /// The version of this change.
        version: u64,
        /// Why it has no value.
        cause: RemovalCause,
    },
    /// A chunk of a value that will be put later. Until then it is not visible.
    Chunk {
        /// Identifies the value that the chunks belong to.
        value_id: u64,
        /// The index of the chunk, from 0.
        number: u32,
        /// Its bytes: [`CHUNK_BYTES`](crate::CHUNK_BYTES) of them, fewer in the last chunk.
        bytes: &'c [u8],
    },
}

/// A part of the key space of a cluster. A store by itself has none.
pub type Shard = u16;

/// Why a key has no value any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalCause {
    /// It was deleted.
    Deletion,
    /// It expired. This has the version of the value, and is not kept: each copy lets values expire by itself.
    Expiry,
    /// It was evicted to make space.
    Eviction,
}

impl RemovalCause {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [RemovalCause::Deletion, RemovalCause::Expiry, RemovalCause::Eviction]
            .into_iter()
            .find(|cause| *cause as u8 == byte)
    }
}

/// What a key has since its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// A value.
    Value(Metadata),
    /// No value any more.
    Removed {
        /// The version of the removal.
        version: u64,
        /// Why.
        cause: RemovalCause,
    },
}

/// Keys and what they have.
pub type KeyStates = Vec<(Box<[u8]>, KeyState)>;

impl KeyState {
    /// The version of the last change.
    pub fn version(&self) -> u64 {
        match self {
            KeyState::Value(metadata) => metadata.version,
            KeyState::Removed { version, .. } => *version,
        }
    }
}

/// Where a value's bytes are.
#[derive(Debug, Clone, Copy)]
pub enum Body<'c> {
    /// In the change itself.
    Inline(&'c [u8]),
    /// In chunks that were saved before, under this value_id.
    Chunks(u64),
}
