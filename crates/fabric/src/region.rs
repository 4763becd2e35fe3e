//! Memory that is registered: what may be done with it, by whom.

use std::sync::Arc;

use crate::memory::Memory;
use crate::verbs::Mr;

/// What peers may do with a region. Its owner may always read and write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rights {
    /// Peers may read it.
    pub read: bool,
    /// Peers may write it.
    pub write: bool,
    /// Peers may add to it, and compare and swap, eight bytes at a time.
    pub atomic: bool,
}

impl Rights {
    /// Nobody but the owner.
    pub const NONE: Rights = Rights { read: false, write: false, atomic: false };
    /// Everything.
    pub const ALL: Rights = Rights { read: true, write: true, atomic: true };
}

/// Registered memory. Clones share the registration; the last one ends it.
#[derive(Debug, Clone)]
pub struct Region {
    memory: Memory,
    rights: Rights,
    registration: Arc<Mr>,
}

impl Region {
    pub(crate) fn new(memory: Memory, rights: Rights, registration: Arc<Mr>) -> Self {
        Region { memory, rights, registration }
    }

    /// The memory behind it.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// What peers may do with it.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// Whether both stand on one registration, as those of the same memory and rights do.
    pub fn shares_registration(&self, other: &Region) -> bool {
        Arc::ptr_eq(&self.registration, &other.registration)
    }
}
