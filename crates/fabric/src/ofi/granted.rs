//! The regions granted to the peer: checks its requests on them.
//!
//! A provider checks the key when a write or read starts, and some (`tcp`) then copy the bytes as they arrive:
//! closing the registration does not stop a transfer that has started. So the memory of granted
//! regions is kept until the endpoint is closed; the key ends with the region.

use std::collections::HashMap;

use super::frame::AtomicOp;
use super::mr::registration;
use crate::memory::Memory;
use crate::region::{Region, Rights, Slice, WeakRegion};

pub(super) struct GrantedRegions {
    /// The domain of the keys.
    domain: u32,
    /// By key. Regions of the same memory and rights have one key.
    regions: HashMap<u64, Vec<WeakRegion>>,
    /// Memory that the provider may still access, by its id.
    kept_memory: HashMap<u64, Memory>,
}

impl GrantedRegions {
    /// No regions yet.
    pub(super) fn new(domain: u32) -> Self {
        GrantedRegions { domain, regions: HashMap::new(), kept_memory: HashMap::new() }
    }

    /// Adds a region, and removes those that were dropped.
    pub(super) fn add(&mut self, key: u64, region: &Region) {
        self.regions.retain(|_, regions| {
            regions.retain(|region| !region.is_gone());
            !regions.is_empty()
        });
        let regions = self.regions.entry(key).or_default();
        if !regions.iter().any(|known| known.is(region)) {
            regions.push(region.downgrade());
        }
    }

    /// Keeps memory until [`GrantedRegions::release`].
    pub(super) fn keep(&mut self, memory: &Memory) {
        self.kept_memory.entry(memory.id()).or_insert_with(|| memory.clone());
    }

    /// The endpoint is closed.
    pub(super) fn release(&mut self) {
        self.kept_memory.clear();
    }

    /// Whether the key is valid.
    pub(super) fn contains(&self, key: u64) -> bool {
        self.region(key).is_some()
    }

    /// The bytes that the peer addresses, if they are in bounds and it has the rights.
    pub(super) fn slice(
        &self,
        key: u64,
        offset: u64,
        length: u64,
        wanted: Rights,
    ) -> Option<Slice> {
        let region = self.region(key).filter(|region| region.rights().allow(wanted))?;
        let end = offset.checked_add(length).filter(|end| *end <= region.len() as u64)?;
        Some(region.slice(offset as usize..end as usize))
    }

    /// Executes an atomic operation for the peer; `None` if it is not allowed.
    pub(super) fn apply(&self, key: u64, offset: u64, op: AtomicOp) -> Option<u64> {
        let word = self.slice(key, offset, 8, Rights { atomic: true, ..Rights::NONE })?;
        if !word.address().addr().is_multiple_of(8) {
            return None;
        }
        let (memory, at) = (word.region().memory(), word.offset());
        Some(match op {
            AtomicOp::Add(add) => memory.fetch_add(at, add),
            AtomicOp::Swap { expect, new } => memory.compare_swap(at, expect, new),
        })
    }

    /// A region that is still registered under the key: detaching a region revokes the grant, and a provider that
    /// chooses keys may reuse its key.
    fn region(&self, key: u64) -> Option<Region> {
        let has_it =
            |region: &Region| registration(region, self.domain).is_some_and(|mr| mr.key() == key);
        self.regions.get(&key)?.iter().filter_map(WeakRegion::upgrade).find(has_it)
    }
}

#[cfg(all(test, feature = "external-tests"))]
mod tests {
    use super::super::misbehaving_peer;
    use super::*;
    use crate::memory::Pages;
    use crate::setup::Fabric;

    #[test]
    fn key_bounds_rights_and_lifetime_are_checked() {
        let domain = misbehaving_peer::open();
        let number = domain.shared().fid_domain.number();
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let readable = Rights { read: true, atomic: true, ..Rights::NONE };
        let [one, other, third] = [(); 3].map(|()| Region::shared(&memory, readable));
        let regions = [&one, &other, &third];
        regions.iter().for_each(|region| domain.attach(region).unwrap());
        let key = registration(&one, number).unwrap().key();
        let mut granted = GrantedRegions::new(number);
        regions.iter().for_each(|region| granted.add(key, region));
        let read = |granted: &GrantedRegions, offset, length| {
            granted.slice(key, offset, length, Rights { read: true, ..Rights::NONE }).is_some()
        };
        assert!(read(&granted, 4000, 96) && !read(&granted, 4000, 97));
        assert!(!read(&granted, u64::MAX, 2) && !granted.contains(key ^ 1));
        assert!(granted.slice(key, 0, 1, Rights::ALL).is_none(), "writing was not granted");
        assert_eq!(granted.apply(key, 8, AtomicOp::Add(3)), Some(0));
        assert_eq!(granted.apply(key, 8, AtomicOp::Swap { expect: 3, new: 9 }), Some(3));
        assert_eq!((granted.apply(key, 4, AtomicOp::Add(1)), memory.load(8)), (None, 9));
        drop(one);
        assert!(granted.contains(key), "others have the same key");
        domain.detach(&other);
        assert!(granted.contains(key), "one is left");
        domain.detach(&third);
        assert!(!granted.contains(key) && !read(&granted, 0, 1), "they exist, but are detached");
        assert_eq!((granted.apply(key, 8, AtomicOp::Add(3)), memory.load(8)), (None, 9));
    }

    #[test]
    fn memory_is_kept_once_until_it_is_released() {
        let memory = Memory::from_boxed(vec![0; 64].into()).unwrap();
        let mut granted = GrantedRegions::new(0);
        granted.keep(&memory);
        granted.keep(&memory);
        let memory = memory.into_boxed().expect_err("a provider may use it");
        granted.release();
        memory.into_boxed().expect("no longer used");
    }
}
