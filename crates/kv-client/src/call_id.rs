//! Ids of calls.

/// Identifies a pending call of a [`Client`](crate::Client), see [`Client::ready`](crate::Client::ready). No later call
/// of the same client has the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId(u64);

impl CallId {
    /// For requests whose answer is not needed.
    pub(crate) const NONE: CallId = CallId(0);

    /// The `generation`-th use of a row. Generations begin at 1.
    #[inline]
    pub(crate) fn new(generation: u32, row: u32) -> Self {
        CallId(u64::from(generation) << 32 | u64::from(row))
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
        CallId(self.0 + 1)
    }
}
