//! Values on disk. It knows keys, bytes and versions; it never sees the network, the pool or the clock.
//!
//! A directory has one SQLite database: one row per key, long values in chunks. Changes passed to
//! [`DiskWriter::save`] are durable when it returns, all or none. Readers see only durable data. Every
//! row and every chunk has its own checksum, so damage affects only the damaged values and is never returned.
//!
//! Start at [`Disk`], which opens a [`Writer`] and [`Reader`]s. Their traits, [`DiskWriter`] and [`DiskReader`], let
//! tests inject faults. [`check()`], [`back_up`] and [`restore`] need no `Disk`.

mod backup;
mod change;
mod check;
mod checkpointer;
mod directory;
mod disk_reserve;
mod error;
mod files_in_use;
mod log;
mod reader;
mod row;
mod schema;
mod writer;

pub use backup::{back_up, restore};
pub use change::{Body, Change};
pub use check::{CheckReport, check};
pub use directory::Disk;
pub use error::{Error, ErrorKind};
pub use reader::{DiskReader, Listing, Reader, Sink};
pub use row::{Metadata, RowInfo};
pub use writer::{DiskWriter, Writer};

/// Values longer than this are stored in chunks of this length.
pub const CHUNK_BYTES: usize = 256 << 10;
