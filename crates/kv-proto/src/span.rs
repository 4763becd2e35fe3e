//! The part of a value to read.

use std::ops::Range;

use crate::Error;

/// At most `length` bytes from `offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The first byte.
    pub offset: u64,
    /// The maximum length; `None`: up to the end.
    pub length: Option<u64>,
}

impl Span {
    /// The range within a value of `total` bytes, shortened at the value's end. An error if `offset` is past the
    /// end.
    pub fn within(self, total: u64) -> Result<Range<u64>, Error> {
        let rest = total
            .checked_sub(self.offset)
            .ok_or(Error::OffsetPastEnd { offset: self.offset, length: total })?;
        Ok(self.offset..self.offset + self.length.unwrap_or(rest).min(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(offset: u64, length: Option<u64>, total: u64) -> Option<Range<u64>> {
        Span { offset, length }.within(total).ok()
    }

    #[test]
    fn a_part_ends_where_the_value_ends() {
        assert_eq!(within(0, None, 10), Some(0..10));
        assert_eq!(within(4, Some(3), 10), Some(4..7));
        assert_eq!(within(4, Some(30), 10), Some(4..10));
        assert_eq!(within(1, Some(u64::MAX), 10), Some(1..10));
        assert_eq!(within(4, Some(0), 10), Some(4..4));
    }

    #[test]
    fn the_end_is_a_place_and_beyond_is_none() {
        assert_eq!(within(10, None, 10), Some(10..10));
        assert_eq!(within(11, None, 10), None);
        assert_eq!(within(u64::MAX, Some(u64::MAX), 0), None);
        assert_eq!(within(0, None, 0), Some(0..0));
    }
}
