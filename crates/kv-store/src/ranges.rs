//! The ranges of the pool where a value is stored.

use std::sync::Arc;

/// Consecutive bytes of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// The offset of the first byte: a multiple of 8.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

/// The bytes of one value, in order. Almost all values are in one range; long ones in a fragmented
/// pool may be in several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// All bytes are consecutive. An empty value has the range of length 0 at offset 0.
    One(Range),
    /// Several ranges; all but the last consist of whole units of 4 KiB.
    Many(Arc<[Range]>),
}

impl Ranges {
    /// The ranges, in the order of the value's bytes.
    pub fn as_slice(&self) -> &[Range] {
        match self {
            Ranges::One(range) => std::slice::from_ref(range),
            Ranges::Many(ranges) => ranges,
        }
    }
}
