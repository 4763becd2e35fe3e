//! Maps keys to ranges of a pool. It never sees the bytes, the network or the clock.
//!
//! A pool is memory that its owner has, by offsets from 0 on; this crate says which bytes of it
//! belong to which key, and for how long. The caller moves the bytes and tells the time. Nothing is
//! written to disk, no thread is started, and nothing happens unless a method is called.
//!
//! Start at [`Store`]. To write is to [reserve](Store::reserve) memory, fill it, and
//! [commit](Store::commit) it under a [`Key`]; to read is to [pin](Store::pin) a value, read its
//! [`Ranges`], and [unpin](Store::unpin) it. While it is pinned its bytes stay, whatever becomes of
//! the key; a reader sees the old value or the new one, never some of each.
//!
//! ```
//! use kv_store::{Condition, Key, Moment, Settings, Store};
//!
//! let store = Store::new(Settings::with_pool(1 << 20));
//! let (key, now) = (Key::new(b"greeting")?, Moment(0));
//!
//! let reservation = store.reserve(5, now)?;
//! for range in reservation.ranges().as_slice() {
//!     // Write the value's bytes to the pool at `range.offset`.
//! #   assert_eq!(range.length, 5);
//! }
//! let done = store.commit(key, reservation, None, Condition::IfAbsent, now)?;
//!
//! let pinned = store.pin(key, now).expect("it was just committed");
//! assert_eq!(pinned.facts.version, done.version);
//! store.unpin(pinned.pin);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Inside
//!
//! `store.rs` has the calls on keys, `reserve.rs` what makes room for values, `list.rs` the lists.
//! The index is cut into shards (`shard/`), each under a lock of its own: entries of one cache line,
//! a table of their numbers, the order of eviction (SIEVE), expiries. The memory of all is one
//! `pool/` under another lock: runs of 4 KiB units, and slabs of equal slots for values of up to
//! 32 KiB. A thread holds one lock at a time.
//!
//! # What it costs
//!
//! Measured in November 2026 on two cores of a virtual Xeon that had other work too, where a cache
//! line from memory takes 300 ns; the tests and `examples/rate.rs` print the results anew. Times are
//! medians over several runs, for one thread.
//!
//! | | |
//! |---|---|
//! | memory for a key of 16 bytes with a value of 100, of a million | 76 bytes of index and 104 of the pool: 180 |
//! | pin and unpin, of 10 000 keys (in the caches) | 63 to 118 ns |
//! | pin and unpin, of a million keys (not in the caches) | 320 to 500 ns; a `HashMap` took 255 to 300 ns to look one up |
//! | reserve and commit 100 bytes, of 10 000 keys | 144 to 180 ns; 160 to 204 to replace; 281 to 296 to evict |
//! | reserve and commit 100 bytes, of a million keys | 295 to 400 ns; 371 to 585 to replace; 559 to 740 to evict |
//!
//! The tables of the pool are part of the index: 12 bytes for each 4 KiB of it, touched when used.
//!
//! How much of a pool of 64 MiB holds bytes of values:
//!
//! | lengths | at the first refusal | under eviction | at least |
//! |---|---|---|---|
//! | all 1000 B | 97.7 % | 97.7 % | 97.7 % |
//! | uniform, 1 B to 1 KiB | 94.4 % | 94.3 % | 93.2 % |
//! | uniform, 1 B to 64 KiB | 94.1 % | 93.2 % | 92.3 % |
//! | log-uniform, 64 B to 1 MiB | 97.6 % | 97.0 % | 95.8 % |
//! | blocks of a KV cache, 100 B to 2 MiB | 99.9 % | 98.9 % | 97.0 % |
//! | short, then long, then middling, in turns | 95.1 % | 86.4 % | 81.1 % |
//!
//! With requests by Zipf's law and room for a tenth of the keys, 73.2 % hit, where first in first
//! out would have 65.2 %.

mod error;
mod facts;
mod key;
mod list;
mod pin;
mod pool;
mod ranges;
mod reservation;
mod reserve;
mod settings;
mod shard;
mod shard_slot;
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
