//! The keys of one memory with any number of domains, which come and go while the memory stays.
//!
//! A lane finds the key of its own domain by looking, without lock or allocation. Who attaches and
//! detaches takes a lock beside it.
//!
//! That memory outlives its flight is not kept here: an operation owns its slice, the slice its region,
//! the region its memory, whether a device still knows the memory or not. A key that is revoked under
//! an operation makes the device refuse, which ends the lane, and nothing worse: a device checks addresses
//! as well as keys, and at the addresses of memory that lives there is no other memory.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::memory::Memory;

/// A memory's registration with one domain.
pub(crate) struct Mr {
    /// The device's own object. It goes first: a device must not write into pages that are somebody else's by then.
    _object: Box<dyn Send + Sync>,
    domain: u32,
    lkey: u32,
    rkey: u32,
    memory: Memory,
}

impl Mr {
    pub(crate) fn new(
        object: Box<dyn Send + Sync>,
        domain: u32,
        (lkey, rkey): (u32, u32),
        memory: &Memory,
    ) -> Self {
        Mr { _object: object, domain, lkey, rkey, memory: memory.clone() }
    }

    /// The key by which our own work requests name this memory.
    #[inline]
    pub(crate) fn lkey(&self) -> u32 {
        self.lkey
    }

    /// The key by which peers name it.
    pub(crate) fn rkey(&self) -> u32 {
        self.rkey
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The number of its domain.
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

/// A region's registrations, at most one with each domain.
#[derive(Debug, Default)]
pub(crate) struct Keyring {
    slots: Slots,
    /// Those behind the slots. The slots change under this lock only.
    mrs: Mutex<Vec<Arc<Mr>>>,
}

impl Keyring {
    /// With how many domains a region can be registered at a time.
    pub(crate) const MAX: usize = 16;

    /// The key by which work requests of this domain name the memory.
    #[inline]
    pub(crate) fn lkey(&self, domain: u32) -> Option<u32> {
        self.slots.get(domain)
    }

    /// The key by which peers name it over lanes of this domain.
    pub(crate) fn rkey(&self, domain: u32) -> Option<u32> {
        self.mrs().iter().find(|mr| mr.domain() == domain).map(|mr| mr.rkey())
    }

    /// Adds a registration, unless one with its domain is there. `false`: there is no room.
    pub(crate) fn add(&self, mr: Arc<Mr>) -> bool {
        let mut mrs = self.mrs();
        if self.slots.get(mr.domain()).is_some() {
            return true;
        }
        let added = self.slots.put(mr.domain(), mr.lkey());
        if added {
            mrs.push(mr);
        }
        added
    }

    /// Takes the registration with this domain off. The device forgets it with its last user.
    pub(crate) fn remove(&self, domain: u32) {
        let mut mrs = self.mrs();
        self.slots.clear(domain);
        let at = mrs.iter().position(|mr| mr.domain() == domain);
        let removed = at.map(|at| mrs.swap_remove(at));
        drop(mrs);
        // The device is told without the lock.
        drop(removed);
    }

    pub(crate) fn holds(&self, mr: &Arc<Mr>) -> bool {
        self.mrs().iter().any(|own| Arc::ptr_eq(own, mr))
    }

    /// Whether one registration is on both.
    pub(crate) fn meets(&self, other: &Keyring) -> bool {
        let own = self.mrs().clone();
        own.iter().any(|mr| other.holds(mr))
    }

    fn mrs(&self) -> MutexGuard<'_, Vec<Arc<Mr>>> {
        self.mrs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys by domain: the domain's number in the upper half, its key in the lower. Domains have numbers from
/// 1, so that 0 is a free slot.
#[derive(Debug, Default)]
struct Slots([AtomicU64; Keyring::MAX]);

impl Slots {
    #[inline]
    fn get(&self, domain: u32) -> Option<u32> {
        let slots = self.0.iter().map(|slot| slot.load(Ordering::Acquire));
        slots.into_iter().find(|slot| slot >> 32 == u64::from(domain)).map(|slot| slot as u32)
    }

    fn put(&self, domain: u32, key: u32) -> bool {
        let free = self.0.iter().find(|slot| slot.load(Ordering::Relaxed) == 0);
        let filled = u64::from(domain) << 32 | u64::from(key);
        free.map(|slot| slot.store(filled, Ordering::Release)).is_some()
    }

    fn clear(&self, domain: u32) {
        let of_domain = |slot: &&AtomicU64| slot.load(Ordering::Relaxed) >> 32 == u64::from(domain);
        if let Some(slot) = self.0.iter().find(of_domain) {
            slot.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_domain_finds_its_own_key_and_no_other() {
        let slots = Slots::default();
        assert!(slots.put(7, 0) && slots.put(u32::MAX, u32::MAX) && slots.put(1, 9));
        assert_eq!(
            [7, u32::MAX, 1, 2].map(|n| slots.get(n)),
            [Some(0), Some(u32::MAX), Some(9), None]
        );
        slots.clear(u32::MAX);
        slots.clear(5);
        assert_eq!([7, u32::MAX, 1].map(|n| slots.get(n)), [Some(0), None, Some(9)]);
    }

    #[test]
    fn domains_come_and_go_but_only_so_many_at_a_time() {
        let slots = Slots::default();
        for domain in 1..=Keyring::MAX as u32 {
            assert!(slots.put(domain, domain));
        }
        for domain in 100..200 {
            assert!(!slots.put(domain, 1));
            slots.clear(3);
            assert!(slots.put(domain, 5));
            slots.clear(domain);
            assert!(slots.put(3, 3));
        }
        assert_eq!((slots.get(3), slots.get(16), slots.get(150)), (Some(3), Some(16), None));
    }
}
