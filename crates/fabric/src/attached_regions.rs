//! The regions that are attached to a domain.
//!
//! Their keys keep the device open. When the domain and all its lanes are dropped, the keys cannot be used
//! any more, so they are removed here; the regions stay.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::region::{Region, WeakRegion};
use crate::registration::{Registration, SharedRegistrations};

pub(crate) struct AttachedRegions {
    /// The domain's id.
    domain: u32,
    /// Removes a domain's key.
    remove_key: fn(&SharedRegistrations, u32),
    regions: Mutex<Vec<WeakRegion>>,
}

impl AttachedRegions {
    pub(crate) fn new(domain: u32, remove_key: fn(&SharedRegistrations, u32)) -> Self {
        AttachedRegions { domain, remove_key, regions: Mutex::default() }
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

impl Drop for AttachedRegions {
    fn drop(&mut self) {
        let regions = self.regions.get_mut().unwrap_or_else(PoisonError::into_inner);
        for region in regions.drain(..).filter_map(|region| region.upgrade()) {
            if let Registration::Shared(keys) = region.registration() {
                (self.remove_key)(keys, self.domain);
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
    fn regions_are_listed_once_and_removed_when_dropped() {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let attached = AttachedRegions::new(1, |keys, domain| keys.verbs.remove(domain));
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
