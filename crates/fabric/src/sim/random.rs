//! Reproducible random numbers.

use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood 2014): one word of state, and good enough for simulations.
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// True with this probability.
    pub(super) fn happens(&mut self, share: f64) -> bool {
        // An f64 has a fraction of 53 bits.
        let fraction = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        fraction < share
    }

    /// A random duration up to `max`, in nanoseconds.
    pub(super) fn up_to(&mut self, max: Duration) -> Duration {
        let max = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.next() % max.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_equal_the_published_ones() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn shares_and_ranges_are_respected() {
        let mut random = Random::new(7);
        let hits = (0..10_000).filter(|_| random.happens(0.3)).count();
        assert!((2_800..3_200).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !random.happens(0.0) && random.happens(1.0)));
        let max = Duration::from_nanos(3);
        let mut seen = [false; 4];
        (0..100).for_each(|_| seen[random.up_to(max).as_nanos() as usize] = true);
        assert_eq!(seen, [true; 4]);
        assert_eq!(random.up_to(Duration::ZERO), Duration::ZERO);
    }
}
