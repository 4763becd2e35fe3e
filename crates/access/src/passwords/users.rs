//! Who may come in by name and password.

use std::collections::HashMap;

use super::Hash;

/// Who may come in by name and password; if there are none, everybody.
#[derive(Debug)]
pub struct Users {
    named: HashMap<String, Hash>,
    /// Compared with for names that are not there, so that the time an answer takes does not tell which are.
    decoy: Hash,
}

impl Users {
    /// These, by their names.
    pub fn new(named: HashMap<String, Hash>) -> Self {
        let cost = named.values().map(Hash::cost).max().unwrap_or(Hash::USUAL_COST);
        Users { named, decoy: Hash::decoy(cost) }
    }

    /// Whether there are none, so that everybody may come in.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// What a password for this name is compared with, and whether it can be right at all.
    pub fn hash_of(&self, name: &str) -> (&Hash, bool) {
        match self.named.get(name) {
            Some(hash) => (hash, true),
            None => (&self.decoy, false),
        }
    }
}
