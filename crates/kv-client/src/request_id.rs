//! Ids of requests.

/// Identifies a pending request of a client. No later request of the same client has the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RequestId(u64);

impl RequestId {
    /// For requests whose answer is not needed.
    pub(crate) const NONE: RequestId = RequestId(0);

    /// The `generation`-th use of a row. Generations begin at 1.
    #[inline]
    pub(crate) fn new(generation: u32, row: u32) -> Self {
        RequestId(u64::from(generation) << 32 | u64::from(row))
    }

    #[inline]
    pub(crate) fn row(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The next id, for a client that counts them.
    pub(crate) fn next(self) -> Self {
        RequestId(self.0 + 1)
    }
}
