//! The regions that are attached to a domain.
//!
//! They hold the device open by their keys. When the domain and all its lanes are gone nobody can use
//! those, so they are taken off here; the regions live on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::region::{Region, WeakRegion};
use crate::registration::{Keys, Registration};

pub(crate) struct Attached {
    /// The domain's number.
    domain: u32,
    /// Takes its key off.
    take_off: fn(&Keys, u32),
    regions: Mutex<Vec<WeakRegion>>,
}

impl Attached {
    pub(crate) fn to(domain: u32, take_off: fn(&Keys, u32)) -> Self {
        Attached { domain, take_off, regions: Mutex::default() }
    }

    pub(crate) fn add(&self, region: &Region) {
        let mut regions = self.regions();
        regions.retain(|known| !known.is_gone() && !known.is(region));
        regions.push(region.downgrade());
    }

    pub(crate) fn remove(&self, region: &Region) {
        self.regions().retain(|known| !known.is_gone() && !known.is(region));
    }

    fn regions(&self) -> MutexGuard<'_, Vec<WeakRegion>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let regions = self.regions.get_mut().unwrap_or_else(PoisonError::into_inner);
        for region in regions.drain(..).filter_map(|region| region.upgrade()) {
            if let Registration::Shared(keys) = region.registration() {
                (self.take_off)(keys, self.domain);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, Pages};
    use crate::region::Rights;

    #[test]
    fn regions_are_known_once_and_forgotten_when_gone() {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let attached = Attached::to(1, |keys, domain| keys.verbs.remove(domain));
        let [one, other] = [(); 2].map(|()| Region::shared(&memory, Rights::ALL));
        for region in [&one, &other, &one] {
            attached.add(region);
        }
        assert_eq!(attached.regions().len(), 2);
        drop(other);
        attached.add(&one);
        assert_eq!(attached.regions().len(), 1);
        attached.remove(&one);
        assert!(attached.regions().is_empty());
    }
}
