//! Values that prove where they come from: the first word says which write it was, and all others follow from
//! that word, the key and the length. A value that is torn, mixed, misplaced or another key's does not fit.

/// Values of one length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proof {
    length: usize,
}

impl Proof {
    pub(super) fn new(length: usize) -> Self {
        Proof { length }
    }

    /// Writes the value of a key, as the write of this stamp has it.
    pub(super) fn fill(&self, key: u32, stamp: u64, value: &mut Vec<u8>) {
        value.resize(self.length, 0);
        let (stamp, body) = match value.split_first_chunk_mut::<8>() {
            Some((head, body)) => {
                *head = stamp.to_le_bytes();
                (stamp, body)
            }
            // Too short to say which write it was.
            None => (0, &mut value[..]),
        };
        let pattern = self.pattern(key, stamp);
        let (blocks, rest) = body.as_chunks_mut::<BLOCK>();
        let count = blocks.len() as u64;
        for (number, block) in (0..).zip(blocks) {
            *block = nth(&pattern, number);
        }
        rest.copy_from_slice(&nth(&pattern, count)[..rest.len()]);
    }

    /// Whether these bytes are a value that was once written for this key, whole and unmixed.
    pub(super) fn holds(&self, key: u32, value: &[u8]) -> bool {
        if value.len() != self.length {
            return false;
        }
        let (stamp, body) = match value.split_first_chunk::<8>() {
            Some((head, body)) => (u64::from_le_bytes(*head), body),
            None => (0, value),
        };
        let pattern = self.pattern(key, stamp);
        let (blocks, rest) = body.as_chunks::<BLOCK>();
        // Without a branch for each, so that the compiler compares many at a time.
        let mut wrong = 0;
        for (number, block) in (0..).zip(blocks) {
            let words = block.as_chunks::<8>().0.iter().zip(&pattern);
            for (word, expected) in words {
                wrong |= u64::from_le_bytes(*word) ^ step(*expected, number);
            }
        }
        wrong == 0 && rest == &nth(&pattern, blocks.len() as u64)[..rest.len()]
    }

    fn pattern(&self, key: u32, stamp: u64) -> [u64; WORDS] {
        let seed = mix(stamp ^ mix(u64::from(key) << 32 ^ self.length as u64));
        std::array::from_fn(|word| mix(seed.wrapping_add(word as u64)))
    }
}

/// Each block differs from the one before, so that a value whose blocks are in another order does not fit.
#[inline]
fn step(word: u64, block: u64) -> u64 {
    word.wrapping_add(block << 20)
}

fn nth(pattern: &[u64; WORDS], block: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(pattern) {
        *to = step(*word, block).to_le_bytes();
    }
    bytes
}

/// Scatters a number over all 64 bits (splitmix64).
#[inline]
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

const WORDS: usize = 8;
const BLOCK: usize = WORDS * 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn value(length: usize, key: u32, stamp: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        Proof::new(length).fill(key, stamp, &mut bytes);
        bytes
    }

    #[test]
    fn what_was_written_holds_and_nothing_else() {
        for length in [1, 7, 8, 9, 71, 72, 73, 4096, 4099] {
            let proof = Proof::new(length);
            let good = value(length, 7, 3);
            assert!(proof.holds(7, &good), "{length}");
            assert!(!proof.holds(7, &good[1..]), "{length}: cut");
            // Less than a word and a bit cannot say whose it is.
            if length > 9 {
                assert!(!proof.holds(8, &good), "{length}: another key's");
            }
            for at in [8, length / 2, length - 1].into_iter().filter(|at| (8..length).contains(at))
            {
                let mut bad = good.clone();
                bad[at] ^= 1;
                assert!(!proof.holds(7, &bad), "{length}: a bit at {at}");
            }
        }
    }

    #[test]
    fn torn_and_shuffled_values_do_not_hold() {
        let (proof, one, other) = (Proof::new(4096), value(4096, 7, 3), value(4096, 7, 4));
        for cut in [8, 64, 2048, 4088] {
            assert!(!proof.holds(7, &[&one[..cut], &other[cut..]].concat()), "torn at {cut}");
        }
        let mut shuffled = one.clone();
        shuffled[8..136].rotate_left(64);
        assert!(!proof.holds(7, &shuffled));
        let mut shifted = one.clone();
        shifted.copy_within(72..4096, 8);
        assert!(!proof.holds(7, &shifted));
    }
}
