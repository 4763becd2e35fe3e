//! The expected length of the next value, from the length of the last ones.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes to request of a value whose length is not known.
#[derive(Debug)]
pub(crate) struct LengthHint(AtomicUsize);

impl Default for LengthHint {
    fn default() -> Self {
        LengthHint(AtomicUsize::new(MIN))
    }
}

impl LengthHint {
    #[inline]
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Grows at once to the next power of two, and shrinks slowly. If two tasks call this
    /// at once, one length may be lost, which does no harm.
    #[inline]
    pub(crate) fn learn(&self, length: u64) {
        let length = (length as usize).clamp(MIN, MAX);
        let now = self.get();
        let next = length.next_power_of_two().max(now - now / 8);
        if next != now {
            self.0.store(next, Ordering::Relaxed);
        }
    }
}

const MIN: usize = 4 << 10;
const MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_grows_at_once_and_shrinks_slowly() {
        let hint = LengthHint::default();
        hint.learn(100_000);
        assert_eq!(hint.get(), 131_072);
        hint.learn(10);
        assert_eq!(hint.get(), 131_072 - 131_072 / 8);
        (0..100).for_each(|_| hint.learn(10));
        assert!(hint.get() < 2 * MIN);
        hint.learn(u64::MAX);
        assert_eq!(hint.get(), MAX);
    }
}
