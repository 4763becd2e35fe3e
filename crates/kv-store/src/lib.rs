//! Maps keys to ranges of a pool. It never sees the bytes, the network or the clock.
//!
//! A pool is memory of the caller, addressed by offsets from 0; this crate decides which bytes of it
//! belong to which key, and for how long. The caller moves the bytes and passes the time as `now`. Nothing is
//! written to disk, no thread is started, and all work is done inside method calls.
//!
//! Start at [`Store`]. To write, [reserve](Store::reserve) memory, fill it, and
//! [commit](Store::commit) it under a [`Key`]; to read, [pin](Store::pin) a value, read its
//! [`Ranges`], and [unpin](Store::unpin) it. While a value is pinned its bytes do not change, even if
//! the key is replaced or deleted; a reader sees the old value or the new one, never a mix.
//!
//! ```
//! use kv_store::{Condition, Key, Settings, Store, Timestamp};
//!
//! let store = Store::new(Settings::with_pool(1 << 20));
//! let (key, now) = (Key::new(b"greeting")?, Timestamp(0));
//!
//! let reservation = store.reserve(5, now)?;
//! for range in reservation.ranges().as_slice() {
//!     // Write the value's bytes to the pool at `range.offset`.
//! #   assert_eq!(range.length, 5);
//! }
//! let done = store.commit(key, reservation, None, Condition::IfAbsent, now)?;
//!
//! let pinned = store.pin(key, now).expect("it was just committed");
//! assert_eq!(pinned.metadata.version, done.version);
//! store.unpin(pinned.pin);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Inside
//!
//! `store.rs` has the calls on keys, `reserve.rs` reservation, eviction and expiry, `list.rs` listing.
//! The index is divided into shards (`shard/`), each with its own lock: entries of one cache line,
//! a hash table of their indexes, the eviction order (SIEVE), expiries. All values share one
//! `pool/` under another lock: runs of 4 KiB units, and slabs of equal slots for values of up to
//! 32 KiB. `spare_slots.rs` keeps slots that threads have freed for their next values, so that writers rarely lock the
//! pool. A thread holds one lock at a time.
//!
//! # What it costs
//!
//! Measured in November 2026 on two cores of a virtual Xeon with other load, where a cache
//! miss takes 300 ns; the tests and `examples/rate.rs` print the current results. Times are
//! medians of several runs, for one thread.
//!
//! | | |
//! |---|---|
//! | memory per key of 16 bytes with a value of 100, among a million | 76 bytes of index and 104 of the pool: 180 |
//! | pin and unpin, among 10 000 keys (in the caches) | 63 to 118 ns |
//! | pin and unpin, among a million keys (not in the caches) | 320 to 500 ns; a `HashMap` lookup took 255 to 300 ns |
//! | reserve and commit 100 bytes, among 10 000 keys | 144 to 180 ns; 160 to 204 to replace; 281 to 296 to evict |
//! | reserve and commit 100 bytes, among a million keys | 295 to 400 ns; 371 to 585 to replace; 559 to 740 to evict |
//!
//! The pool's tables count as index: 12 bytes per 4 KiB of pool, touched when used.
//!
//! Utilisation of a pool of 64 MiB (bytes of values):
//!
//! | lengths | at the first refusal | under eviction | at least |
//! |---|---|---|---|
//! | all 1000 B | 97.7 % | 97.7 % | 97.7 % |
//! | uniform, 1 B to 1 KiB | 94.4 % | 94.3 % | 93.2 % |
//! | uniform, 1 B to 64 KiB | 94.1 % | 93.2 % | 92.3 % |
//! | log-uniform, 64 B to 1 MiB | 97.6 % | 97.0 % | 95.8 % |
//! | blocks of a KV cache, 100 B to 2 MiB | 99.9 % | 98.9 % | 97.0 % |
//! | short, long and medium, alternating | 95.1 % | 86.4 % | 81.1 % |
//!
//! With Zipf-distributed requests and space for a tenth of the keys, the hit rate is 73.2 %; FIFO
//! eviction would have 65.2 %.

mod error;
mod key;
mod list;
mod locked_shard;
mod metadata;
mod pin;
mod pool;
mod ranges;
mod reservation;
mod reserve;
mod settings;
mod shard;
mod spare_slots;
mod store;
mod usage;

pub use error::{InvalidKey, ReserveError, WriteError};
pub use key::Key;
pub use list::{Cursor, Page};
pub use metadata::{Committed, Condition, Metadata, Timestamp};
pub use pin::{Pin, Pinned};
pub use ranges::{Range, Ranges};
pub use reservation::Reservation;
pub use settings::{Settings, WhenFull};
pub use store::Store;
pub use usage::Usage;
