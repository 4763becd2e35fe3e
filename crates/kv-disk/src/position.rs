//! Where something is in the log.

/// A byte of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The number of the segment, from 1.
    pub(crate) segment: u32,
    /// The offset in its file.
    pub(crate) offset: u32,
}

impl Position {
    /// As one column of the index.
    pub(crate) fn to_column(self) -> i64 {
        (i64::from(self.segment) << 32) | i64::from(self.offset)
    }

    pub(crate) fn from_column(column: i64) -> Self {
        Position { segment: (column >> 32) as u32, offset: column as u32 }
    }
}
