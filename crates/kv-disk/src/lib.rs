//! Values on disk. It knows keys, bytes and versions; it never sees the network, the pool or the clock.
//!
//! Everything lies in one SQLite database in a directory: one row for a key, long values in pieces. What
//! [`Vault::save`] took is durable when it returns, all of it or nothing. Whoever reads sees only what is durable. Every
//! row and every piece has a checksum of its own, so damage costs what is damaged and is never handed out.
//!
//! Start at [`Vault`], the one who writes; it is a trait so that tests can let it fail. [`Disk`] opens both it and
//! [`Reader`]s; [`check()`], [`back_up`] and [`restore`] are beside it.

mod backup;
mod change;
mod check;
mod checkpointer;
mod directory;
mod error;
mod log;
mod reader;
mod row;
mod schema;
mod writer;

pub use backup::{back_up, restore};
pub use change::{Body, Change};
pub use check::{Checked, check};
pub use directory::Disk;
pub use error::{Error, Kind};
pub use reader::{Listed, Reader, Sink, Source};
pub use row::{Facts, Known};
pub use writer::{Vault, Writer};

/// Longer values lie in pieces of this length.
pub const PIECE: usize = 256 << 10;
