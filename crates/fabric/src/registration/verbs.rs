//! One memory's registrations with verbs domains, which may be added and removed at any time.
//!
//! A lane looks up the key of its domain without lock or allocation. Attaching and
//! detaching take a lock.
//!
//! The lifetime of memory in flight does not depend on this: an operation owns its slice, the slice its region,
//! the region its memory, registered or not. If a key is revoked during
//! an operation, the device refuses it and the lane ends, but no other memory is accessed: a device checks addresses
//! as well as keys, and the addresses still belong to this memory.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{DeviceObject, Registered};
use crate::memory::Memory;

/// A memory's registration with one domain.
pub(crate) struct Mr {
    domain: u32,
    lkey: u32,
    rkey: u32,
    registered: Registered,
}

impl Mr {
    pub(crate) fn new(
        object: Box<dyn DeviceObject>,
        domain: u32,
        (lkey, rkey): (u32, u32),
        memory: &Memory,
    ) -> Self {
        Mr { domain, lkey, rkey, registered: Registered::new(object, memory) }
    }

    /// The local key.
    #[inline]
    pub(crate) fn lkey(&self) -> u32 {
        self.lkey
    }

    /// The remote key.
    pub(crate) fn rkey(&self) -> u32 {
        self.rkey
    }

    pub(crate) fn memory(&self) -> &Memory {
        self.registered.memory()
    }

    /// The id of its domain.
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

/// A region's registrations, at most one per domain.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    local_keys: LocalKeys,
    /// The registrations of these keys. The keys are changed only under this lock.
    mrs: Mutex<Vec<Arc<Mr>>>,
}

impl Registrations {
    /// The maximum number of domains that a region can be registered with at a time.
    pub(crate) const MAX: usize = 16;

    /// The local key for this domain.
    #[inline]
    pub(crate) fn lkey(&self, domain: u32) -> Option<u32> {
        self.local_keys.get(domain)
    }

    /// The remote key for lanes of this domain.
    pub(crate) fn rkey(&self, domain: u32) -> Option<u32> {
        self.mrs().iter().find(|mr| mr.domain() == domain).map(|mr| mr.rkey())
    }

    /// Adds a registration, unless there is one with its domain. `false` if all rows are in use.
    pub(crate) fn add(&self, mr: Arc<Mr>) -> bool {
        let mut mrs = self.mrs();
        if self.local_keys.get(mr.domain()).is_some() {
            return true;
        }
        let added = self.local_keys.put(mr.domain(), mr.lkey());
        if added {
            mrs.push(mr);
        }
        added
    }

    /// Removes the registration with this domain. It is deregistered when its last user drops it.
    pub(crate) fn remove(&self, domain: u32) {
        let mut mrs = self.mrs();
        self.local_keys.clear(domain);
        let at = mrs.iter().position(|mr| mr.domain() == domain);
        let removed = at.map(|at| mrs.swap_remove(at));
        drop(mrs);
        // Deregistered without holding the lock.
        drop(removed);
    }

    pub(crate) fn contains(&self, mr: &Arc<Mr>) -> bool {
        self.mrs().iter().any(|own| Arc::ptr_eq(own, mr))
    }

    /// Whether both contain a common registration.
    pub(crate) fn shares_any(&self, other: &Registrations) -> bool {
        let own = self.mrs().clone();
        own.iter().any(|mr| other.contains(mr))
    }

    fn mrs(&self) -> MutexGuard<'_, Vec<Arc<Mr>>> {
        self.mrs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Local keys by domain: the domain's id in the upper half, its key in the lower. Ids start at 1, so that 0 is a
/// free row.
#[derive(Debug, Default)]
struct LocalKeys([AtomicU64; Registrations::MAX]);

impl LocalKeys {
    #[inline]
    fn get(&self, domain: u32) -> Option<u32> {
        let rows = self.0.iter().map(|row| row.load(Ordering::Acquire));
        rows.into_iter().find(|row| row >> 32 == u64::from(domain)).map(|row| row as u32)
    }

    fn put(&self, domain: u32, key: u32) -> bool {
        let free = self.0.iter().find(|row| row.load(Ordering::Relaxed) == 0);
        let filled = u64::from(domain) << 32 | u64::from(key);
        free.map(|row| row.store(filled, Ordering::Release)).is_some()
    }

    fn clear(&self, domain: u32) {
        let of_domain = |row: &&AtomicU64| row.load(Ordering::Relaxed) >> 32 == u64::from(domain);
        if let Some(row) = self.0.iter().find(of_domain) {
            row.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Object {
        releases: bool,
    }

    impl DeviceObject for Object {
        fn release(&mut self) -> bool {
            self.releases
        }
    }

    /// Memory is freed, or returned to its owner, only after a device has released it.
    #[test]
    fn memory_that_a_device_does_not_release_is_kept_and_counted() {
        for releases in [true, false] {
            let memory = Memory::from_boxed(vec![7; 64].into_boxed_slice()).unwrap();
            let before = crate::unreleased();
            drop(Mr::new(Box::new(Object { releases }), 1, (2, 3), &memory));
            assert_eq!(memory.into_boxed().is_ok(), releases);
            assert_eq!(crate::unreleased() > before, !releases);
        }
    }

    #[test]
    fn keys_are_found_by_domain() {
        let keys = LocalKeys::default();
        assert!(keys.put(7, 0) && keys.put(u32::MAX, u32::MAX) && keys.put(1, 9));
        assert_eq!(
            [7, u32::MAX, 1, 2].map(|n| keys.get(n)),
            [Some(0), Some(u32::MAX), Some(9), None]
        );
        keys.clear(u32::MAX);
        keys.clear(5);
        assert_eq!([7, u32::MAX, 1].map(|n| keys.get(n)), [Some(0), None, Some(9)]);
    }

    #[test]
    fn rows_are_limited_and_reused() {
        let keys = LocalKeys::default();
        for domain in 1..=Registrations::MAX as u32 {
            assert!(keys.put(domain, domain));
        }
        for domain in 100..200 {
            assert!(!keys.put(domain, 1));
            keys.clear(3);
            assert!(keys.put(domain, 5));
            keys.clear(domain);
            assert!(keys.put(3, 3));
        }
        assert_eq!((keys.get(3), keys.get(16), keys.get(150)), (Some(3), Some(16), None));
    }
}
