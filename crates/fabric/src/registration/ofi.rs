//! One memory's registrations with any number of devices, which come and go while the memory stays.
//!
//! Unsafe here: `Mr` has a provider's handle, which is a pointer that nobody here follows.
#![allow(unsafe_code, reason = "sends a provider's handle between threads")]

use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::memory::Memory;

/// A memory's registration with one device.
pub(crate) struct Mr {
    /// The provider's own object. It goes first: a provider must not write into pages that are somebody else's by then.
    _object: Box<dyn Send + Sync>,
    domain: u32,
    desc: *mut c_void,
    key: u64,
    start: u64,
    memory: Memory,
}

// SAFETY: whoever makes it has opened the device with `FI_THREAD_SAFE`; the handle is not changed after it was made.
unsafe impl Send for Mr {}
// SAFETY: as above.
unsafe impl Sync for Mr {}

impl Mr {
    pub(crate) fn new(
        object: Box<dyn Send + Sync>,
        domain: u32,
        desc: *mut c_void,
        (start, key): (u64, u64),
        memory: &Memory,
    ) -> Self {
        Mr { _object: object, domain, desc, key, start, memory: memory.clone() }
    }

    /// By which operations of ours name it.
    #[inline]
    pub(crate) fn desc(&self) -> *mut c_void {
        self.desc
    }

    /// By which peers name it.
    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// What peers count from.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The number of its device.
    #[inline]
    pub(crate) fn domain(&self) -> u32 {
        self.domain
    }
}

impl fmt::Debug for Mr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mr")
    }
}

/// At most one with each device. A lane looks its own up for every operation; few ever change it.
#[derive(Debug, Default)]
pub(crate) struct Keyring(RwLock<Vec<Arc<Mr>>>);

impl Keyring {
    #[inline]
    pub(crate) fn get(&self, domain: u32) -> Option<Arc<Mr>> {
        self.all().iter().find(|mr| mr.domain() == domain).cloned()
    }

    #[inline]
    pub(crate) fn has(&self, domain: u32) -> bool {
        self.all().iter().any(|mr| mr.domain() == domain)
    }

    /// Adds a registration, unless one with its device is there.
    pub(crate) fn add(&self, mr: Arc<Mr>) {
        let mut mrs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if mrs.iter().all(|known| known.domain() != mr.domain()) {
            mrs.push(mr);
        }
    }

    /// Takes the registration with this device off. The provider forgets it with its last user.
    pub(crate) fn remove(&self, domain: u32) {
        let mut mrs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let at = mrs.iter().position(|mr| mr.domain() == domain);
        let removed = at.map(|at| mrs.swap_remove(at));
        drop(mrs);
        // The provider is told without the lock.
        drop(removed);
    }

    pub(crate) fn holds(&self, mr: &Arc<Mr>) -> bool {
        self.all().iter().any(|own| Arc::ptr_eq(own, mr))
    }

    /// Whether one registration is on both.
    pub(crate) fn meets(&self, other: &Keyring) -> bool {
        let own = self.all().clone();
        own.iter().any(|mr| other.holds(mr))
    }

    fn all(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<Mr>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}
