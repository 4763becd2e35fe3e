//! The immediate data of each write of an answer.

/// Which batch a write belongs to, and how many writes answer it. In 32 bits, the size of
/// immediate data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// The batch's tag, below [`Parts::TAGS`].
    pub tag: u32,
    /// How many writes there are, at least one, at most [`Parts::MAX`].
    pub count: u32,
}

impl Parts {
    /// How many tags there are.
    pub const TAGS: u32 = 1 << 20;
    /// The most writes that answer one batch.
    pub const MAX: u32 = (1 << 12) - 1;

    /// As immediate data.
    #[inline]
    pub fn to_number(self) -> u32 {
        debug_assert!(self.tag < Self::TAGS && (1..=Self::MAX).contains(&self.count));
        self.count << 20 | self.tag
    }

    /// `None` if it is not a valid value.
    #[inline]
    pub fn from_number(number: u32) -> Option<Self> {
        let parts = Parts { tag: number & (Self::TAGS - 1), count: number >> 20 };
        (parts.count > 0).then_some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for parts in [
            Parts { tag: 0, count: 1 },
            Parts { tag: Parts::TAGS - 1, count: Parts::MAX },
            Parts { tag: 77, count: 2 },
        ] {
            assert_eq!(Parts::from_number(parts.to_number()), Some(parts));
        }
        assert_eq!(Parts::from_number(5), None);
    }
}
