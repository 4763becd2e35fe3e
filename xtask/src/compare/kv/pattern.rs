//! The values that a generator writes: slices of one random buffer, different for each key and each
//! write of a key, so that no value has to be created or stored.

pub(super) struct Pattern {
    random: Vec<u8>,
    offsets: usize,
    size: usize,
}

impl Pattern {
    pub(super) fn new(keys: usize, size: usize) -> Self {
        let offsets = keys + WRITE_STEP;
        let words = size.div_ceil(8) + offsets;
        // xorshift64.
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        let random = (0..words).flat_map(|_| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word.to_le_bytes()
        });
        Pattern { random: random.collect(), offsets, size }
    }

    /// The value of a key after this many writes.
    pub(super) fn value(&self, key: usize, writes: u32) -> &[u8] {
        let offset = (key + writes as usize * WRITE_STEP) % self.offsets;
        &self.random[offset * 8..offset * 8 + self.size]
    }
}

const WRITE_STEP: usize = 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_differ_between_keys_and_writes() {
        let pattern = Pattern::new(1000, 100);
        assert_eq!(pattern.value(7, 3).len(), 100);
        assert_eq!(pattern.value(7, 3), pattern.value(7, 3));
        assert_ne!(pattern.value(7, 3), pattern.value(8, 3));
        assert_ne!(pattern.value(7, 3), pattern.value(7, 4));
    }
}
