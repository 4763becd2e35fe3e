//! The immediate data of each write of an answer.

/// The batch of a write, and how many writes answer that batch: 32 bits, the size of
/// immediate data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// The batch's tag, below [`Parts::TAGS`].
    pub tag: u32,
    /// The number of writes, 1 to [`Parts::MAX`].
    pub count: u32,
}

impl Parts {
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
        let parts = Parts { tag: number & (Self::TAGS - 1), count: number >> 20 };
        (parts.count > 0).then_some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn immediate_data_round_trips() {
        for parts in [
            Parts { tag: 0, count: 1 },
            Parts { tag: Parts::TAGS - 1, count: Parts::MAX },
            Parts { tag: 77, count: 2 },
        ] {
            assert_eq!(Parts::from_immediate(parts.to_immediate()), Some(parts));
        }
        assert_eq!(Parts::from_immediate(5), None);
    }
}
