//! The settings of a store.

/// The settings of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The size of the pool in bytes, rounded down to units of 4 KiB, at most 16 TiB. If too small, values
    /// are evicted or refused early.
    pub pool_bytes: u64,
    /// The approximate memory limit of the index, in bytes, beside the pool: keys take memory too, even those of
    /// empty values. If too small, values are evicted although the pool has space.
    pub index_bytes: u64,
    /// The number of parts of the index, each with its own lock; rounded up to a power of
    /// two, at most 65536. If too few, threads wait for each other; each takes 20 KiB once used.
    pub shards: usize,
    /// What to do with a new value when the pool is full.
    pub when_full: WhenFull,
    /// The version of the first commit. If versions must differ between runs, choose one above all earlier ones, such
    /// as the start time.
    pub first_version: u64,
    /// The seed of the key hash. Use a random one if untrusted callers choose the keys: with a known seed
    /// they can choose colliding keys and make the index slow.
    pub seed: u64,
}

/// What to do when the pool is full. Expired values are removed first in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// Evict values that were not read recently: the store is a cache.
    #[default]
    Evict,
    /// Refuse the new value: the store loses nothing.
    Refuse,
}

impl Settings {
    /// The default settings with a pool of this size: an index without limit, 64 shards, eviction,
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

    /// The number of shards after rounding.
    pub(crate) fn shard_count(&self) -> usize {
        self.shards.clamp(1, 1 << 16).next_power_of_two()
    }
}
