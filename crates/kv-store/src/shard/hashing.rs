//! The hash of keys.

use std::hash::{BuildHasher, Hasher};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

/// Hashes keys, seeded in all its parts, so that nobody can prepare keys of equal hash.
#[derive(Debug, Clone)]
pub(crate) struct Hashing(SeedableRandomState);

impl Hashing {
    pub(crate) fn new(seed: u64) -> Hashing {
        // The hasher wants a seed that lives for ever. A store lives about as long, and without
        // one the constants would be known to everybody.
        let shared: &'static SharedSeed = Box::leak(Box::new(SharedSeed::from_u64(!seed)));
        Hashing(SeedableRandomState::with_seed(seed, shared))
    }

    pub(crate) fn of(&self, key: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(key);
        hasher.finish()
    }
}
