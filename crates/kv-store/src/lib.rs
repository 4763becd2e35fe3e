//! Maps keys to ranges of a pool. It never sees the bytes, the network or the clock.

mod error;
mod facts;
mod key;
mod list;
mod pin;
mod pool;
mod ranges;
mod reservation;
mod room;
mod seat;
mod settings;
mod shard;
mod store;
mod usage;

pub use error::{BadKey, NoRoom, Refused};
pub use facts::{Committed, Condition, Facts, Moment};
pub use key::Key;
pub use list::{Cursor, Page};
pub use pin::{Pin, Pinned};
pub use ranges::{Range, Ranges};
pub use reservation::Reservation;
pub use settings::{Settings, WhenFull};
pub use store::Store;
pub use usage::Usage;
