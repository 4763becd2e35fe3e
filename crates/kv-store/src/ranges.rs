//! Where in the pool a value lies.

use std::sync::Arc;

/// Consecutive bytes of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// Where they begin: a multiple of 8.
    pub offset: u64,
    /// How many they are.
    pub length: u64,
}

/// The bytes of one value, in order. Almost all values lie in one range; long ones in a pool whose
/// free memory is scattered may lie in several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// All bytes lie together. A value of no bytes has the range of length 0 at offset 0.
    One(Range),
    /// The bytes lie in several ranges; but for the last, each has whole units of 4 KiB.
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
