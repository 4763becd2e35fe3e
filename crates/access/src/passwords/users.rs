//! Users with passwords.

use std::collections::HashMap;

use super::Hash;

/// The users of a web config file; without any, no password is needed.
#[derive(Debug)]
pub struct Users {
    named: HashMap<String, Hash>,
    /// Compared with for unknown names, so that the response time does not reveal which names exist.
    decoy: Hash,
}

impl Users {
    /// Hashes by name.
    pub fn new(named: HashMap<String, Hash>) -> Self {
        let cost = named.values().map(Hash::cost).max().unwrap_or(Hash::USUAL_COST);
        Users { named, decoy: Hash::decoy(cost) }
    }

    /// Whether there are no users, so that no password is needed.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// The hash to compare with for this name, and whether the name is known.
    pub fn hash_of(&self, name: &str) -> (&Hash, bool) {
        match self.named.get(name) {
            Some(hash) => (hash, true),
            None => (&self.decoy, false),
        }
    }
}
