//! A pin: keeps a value's memory unchanged while it is read.

use crate::{Metadata, Ranges};

/// Keeps the memory of a value unchanged until it is passed to
/// [`Store::unpin`](crate::Store::unpin). Dropping it instead leaks the memory.
#[derive(Debug)]
#[must_use = "the value's memory is leaked unless the pin is passed to `Store::unpin`"]
pub struct Pin {
    pub(crate) shard: u32,
    pub(crate) id: u32,
    pub(crate) version: u64,
}

/// A pinned value, to be read.
#[derive(Debug)]
#[must_use = "the value's memory is leaked unless the pin is passed to `Store::unpin`"]
pub struct Pinned {
    /// To be passed to `Store::unpin`.
    pub pin: Pin,
    /// The metadata of the value.
    pub metadata: Metadata,
    /// Where its bytes are.
    pub ranges: Ranges,
}
