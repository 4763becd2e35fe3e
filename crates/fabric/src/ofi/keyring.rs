//! One memory's registrations with any number of devices, which come and go while the memory stays.

use std::sync::{Arc, PoisonError, RwLock};

use super::mr::Mr;

/// At most one with each device. A lane looks its own up for every operation; few ever change it.
#[derive(Debug, Default)]
pub(crate) struct Keyring(RwLock<Vec<Arc<Mr>>>);

impl Keyring {
    #[inline]
    pub(super) fn get(&self, domain: u32) -> Option<Arc<Mr>> {
        self.all().iter().find(|mr| mr.domain() == domain).cloned()
    }

    #[inline]
    pub(super) fn has(&self, domain: u32) -> bool {
        self.all().iter().any(|mr| mr.domain() == domain)
    }

    /// Adds a registration, unless one with its device is there.
    pub(super) fn add(&self, mr: Arc<Mr>) {
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
