//! The usage and the counters of a store.

/// The usage and the counters of a store. They are collected while other threads work, so they may be slightly
/// inconsistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Keys, including expired ones that are not removed yet.
    pub keys: u64,
    /// Total length of their values.
    pub value_bytes: u64,
    /// Allocated bytes of the pool: values, reservations and slots of size classes.
    pub used_bytes: u64,
    /// Bytes of reservations that are neither committed nor cancelled.
    pub reserved_bytes: u64,
    /// Current pins.
    pub pins: u64,
    /// Bytes of pinned values.
    pub pinned_bytes: u64,
    /// Values that were replaced or removed while pinned, and are pinned still.
    pub detached: u64,
    /// Free bytes of the pool.
    pub free_bytes: u64,
    /// The longest free run, in bytes.
    pub largest_free: u64,
    /// Heap bytes of the index and of the pool's tables.
    pub index_bytes: u64,
    /// Pins that found their key.
    pub hits: u64,
    /// Pins that did not find their key.
    pub misses: u64,
    /// Commits.
    pub puts: u64,
    /// Keys deleted.
    pub deletes: u64,
    /// Values evicted to free memory.
    pub evicted: u64,
    /// Values removed because they expired.
    pub expired: u64,
}
