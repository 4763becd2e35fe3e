//! What a store holds and has done.

/// What a store holds and has done. Threads go on while it is gathered, so that results may differ
/// by what they did meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Keys, those included that have expired and were not removed yet.
    pub keys: u64,
    /// Bytes of their values.
    pub value_bytes: u64,
    /// Bytes of the pool that are taken: by values, reservations and slots of size classes.
    pub used_bytes: u64,
    /// Bytes of reservations that were neither committed nor cancelled yet.
    pub reserved_bytes: u64,
    /// Pins that were not given back yet.
    pub pins: u64,
    /// Bytes of the values these hold.
    pub pinned_bytes: u64,
    /// Values that were replaced or removed and wait for the last of their pins.
    pub detached: u64,
    /// Bytes of the pool that nothing has taken.
    pub free_bytes: u64,
    /// The longest run of them.
    pub largest_free: u64,
    /// Bytes of the heap that the index and the tables of the pool take.
    pub index_bytes: u64,
    /// Pins that found their key.
    pub hits: u64,
    /// Pins that did not.
    pub misses: u64,
    /// Commits.
    pub puts: u64,
    /// Keys deleted.
    pub deletes: u64,
    /// Values evicted to make room.
    pub evicted: u64,
    /// Values removed because their time had come.
    pub expired: u64,
}
