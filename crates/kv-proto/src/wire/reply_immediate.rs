//! The immediate data of each write of an answer.

/// The batch of a write, and how many writes answer that batch: 32 bits, the size of
/// immediate data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyImmediate {
    /// The batch's tag, below [`ReplyImmediate::TAGS`].
    pub tag: u32,
    /// The number of writes, 1 to [`ReplyImmediate::MAX`].
    pub count: u32,
}

impl ReplyImmediate {
    /// The number of tags.
    pub const TAGS: u32 = 1 << 20;
    /// The maximum number of writes for one batch.
    pub const MAX: u32 = (1 << 12) - 1;

    /// Encodes immediate data.
    #[inline]
    pub fn to_immediate(self) -> u32 {
        debug_assert!(self.tag < Self::TAGS && (1..=Self::MAX).contains(&self.count));
        self.count << 20 | self.tag
    }

    /// Decodes immediate data; `None` if invalid.
    #[inline]
    pub fn from_immediate(number: u32) -> Option<Self> {
        let immediate = ReplyImmediate { tag: number & (Self::TAGS - 1), count: number >> 20 };
        (immediate.count > 0).then_some(immediate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn immediate_data_round_trips() {
        for immediate in [
            ReplyImmediate { tag: 0, count: 1 },
            ReplyImmediate { tag: ReplyImmediate::TAGS - 1, count: ReplyImmediate::MAX },
            ReplyImmediate { tag: 77, count: 2 },
        ] {
            assert_eq!(ReplyImmediate::from_immediate(immediate.to_immediate()), Some(immediate));
        }
        assert_eq!(ReplyImmediate::from_immediate(5), None);
    }
}
