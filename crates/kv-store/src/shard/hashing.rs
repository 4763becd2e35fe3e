//! The hash of keys.

use std::hash::{BuildHasher, Hasher};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

/// Hashes keys, fully seeded, so that colliding keys cannot be prepared.
#[derive(Debug, Clone)]
pub(crate) struct Hashing(SeedableRandomState);

impl Hashing {
    pub(crate) fn new(seed: u64) -> Hashing {
        // The hasher needs a `'static` seed. A store lives about as long as the process, and without
        // a seed the constants would be public.
        let shared: &'static SharedSeed = Box::leak(Box::new(SharedSeed::from_u64(!seed)));
        Hashing(SeedableRandomState::with_seed(seed, shared))
    }

    pub(crate) fn of(&self, key: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(key);
        hasher.finish()
    }
}
