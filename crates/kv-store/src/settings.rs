//! How a store is made.

/// What a store is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the pool that values may take, from offset 0 on; rounded down to units of 4 KiB,
    /// and at most 16 TiB. Too small, and values are evicted or refused early.
    pub pool_bytes: u64,
    /// Bytes of memory that the index may take beside the pool, about: keys cost memory too, those of
    /// values without bytes nothing else. Too small, and values go although the pool has room.
    pub index_bytes: u64,
    /// In how many parts the index is cut, each under a lock of its own; rounded up to a power of
    /// two, at most 65536. Too few, and threads wait for each other; each costs 20 KiB once used.
    pub shards: usize,
    /// What happens to a value for which there is no room.
    pub when_full: WhenFull,
    /// The version of the first commit. Choose one above all that were given before, such as the
    /// time of the start, where versions must differ between runs.
    pub first_version: u64,
    /// Seeds the hash of keys. Draw it at random where unknown callers choose the keys: those who know
    /// it can choose keys that all fall into one place and make the index slow.
    pub seed: u64,
}

/// What happens when the pool is full. Values that have expired go first in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// Values that nobody read of late make room: the store is a cache.
    #[default]
    Evict,
    /// The new value is refused: the store loses nothing.
    Refuse,
}

impl Settings {
    /// The usual settings with a pool of this size: an index without limit, 64 shards, eviction,
    /// versions from 1, and no seed.
    pub fn with_pool(pool_bytes: u64) -> Settings {
        Settings {
            pool_bytes,
            index_bytes: u64::MAX,
            shards: 64,
            when_full: WhenFull::default(),
            first_version: 1,
            seed: 0,
        }
    }

    /// The number of shards there will be.
    pub(crate) fn shard_count(&self) -> usize {
        self.shards.clamp(1, 1 << 16).next_power_of_two()
    }
}
