//! The counters of a shard.

/// The counters of a shard, under its lock. See [`crate::Usage`] for their meaning.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) value_bytes: u64,
    /// Bytes of long keys on the heap.
    pub(crate) key_heap: usize,
    pub(crate) pins: u64,
    pub(crate) pinned_bytes: u64,
    /// Pinned values that still have their key.
    pub(crate) pinned_entries: usize,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) puts: u64,
    pub(crate) deletes: u64,
    pub(crate) evicted: u64,
    pub(crate) expired: u64,
}
