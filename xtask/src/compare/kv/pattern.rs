//! The values that a generator writes: windows into one stretch of noise, so that no two keys and no two
//! writes of a key look alike, and none has to be made or kept.

pub(super) struct Pattern {
    noise: Vec<u8>,
    places: usize,
    size: usize,
}

impl Pattern {
    pub(super) fn new(keys: usize, size: usize) -> Self {
        let places = keys + WRITE_STEP;
        let words = size.div_ceil(8) + places;
        // xorshift64.
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        let noise = (0..words).flat_map(|_| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word.to_le_bytes()
        });
        Pattern { noise: noise.collect(), places, size }
    }

    /// What a key holds after so many writes.
    pub(super) fn value(&self, key: usize, writes: u32) -> &[u8] {
        let place = (key + writes as usize * WRITE_STEP) % self.places;
        &self.noise[place * 8..place * 8 + self.size]
    }
}

const WRITE_STEP: usize = 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_writes_have_values_of_their_own() {
        let pattern = Pattern::new(1000, 100);
        assert_eq!(pattern.value(7, 3).len(), 100);
        assert_eq!(pattern.value(7, 3), pattern.value(7, 3));
        assert_ne!(pattern.value(7, 3), pattern.value(8, 3));
        assert_ne!(pattern.value(7, 3), pattern.value(7, 4));
    }
}
