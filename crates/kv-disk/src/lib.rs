//! Values on disk. It knows keys, bytes and versions; it never sees the network, the pool or the wall clock.
//!
//! Changes passed to [`DiskWriter::save`] are appended to a **log** and synced: they are durable when it returns, all or none.
//! The log is also where values stay. An **index** (SQLite) says where each key's value is; a thread fills it behind the log, and
//! until then readers find the changes in memory. Long values have files of their own. Space is freed by **compaction**:
//! what is needed of a segment of the log is appended again, and the segment is removed. Every record has its own checksums,
//! so that damage affects only the damaged values and is never returned.
//!
//! Records may belong to a **shard**, a part of the keys of a cluster: then removals are kept with their versions, and
//! [`Reader::changes_since`] has all that changed in it. A store by itself, which is all there is today, has no shards.
//!
//! | file | content |
//! |---|---|
//! | `log/NUMBER.log` | a segment of the log: records of changes, in order |
//! | `long/NUMBER` | a value longer than [`CHUNK_BYTES`] |
//! | `wirelane.db` | the index; nothing that the log does not have |
//! | `identity` | the format of the directory, and the UUID of the store |
//! | `reserve` | space for deletions on a full disk |
//! | `lock`, `readers.lock` | locked by the store; by other processes while they read |
//!
//! Start at [`Disk`], which opens a [`Writer`]; the writer opens [`Reader`]s. Their traits, [`DiskWriter`] and [`DiskReader`], let
//! tests inject faults. [`check()`], [`back_up`] and [`restore`] need no `Disk`.

mod applier;
mod backup;
mod change;
mod check;
mod compaction;
mod contents;
mod directory;
mod disk_reserve;
mod error;
mod identity;
mod index;
mod log;
mod long_values;
mod metadata;
mod position;
mod reader;
mod record;
mod row;
mod segment;
mod snapshot;
mod unindexed;
mod upgrade;
mod writer;

pub use backup::{back_up, restore};
pub use change::{Body, Change, KeyState, KeyStates, RemovalCause, Shard};
pub use check::{CheckReport, check};
pub use directory::Disk;
pub use error::{Error, ErrorKind};
pub use metadata::Metadata;
pub use reader::{CachedRead, DiskReader, Listing, Reader, Sink};
pub use upgrade::Upgraded;
pub use writer::{DiskWriter, Writer};

/// Longer values are written in chunks of this length, and have files of their own.
pub const CHUNK_BYTES: usize = 256 << 10;
