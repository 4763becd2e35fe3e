//! The regions that the peer was given keys of: what it asks us to do with them is looked at here.
//!
//! A provider looks at a key when a write or read begins, and some (`tcp`) move the bytes themselves after that,
//! as they come: a registration that is closed meanwhile stops nothing that has begun. So the memory of whatever
//! was granted stays until the endpoint is closed; the key ends with the region.

use std::collections::HashMap;

use super::frame::Change;
use super::mr::registration;
use crate::memory::Memory;
use crate::region::{Region, Rights, Slice, WeakRegion};

pub(super) struct Granted {
    /// The number of the domain that the keys are of.
    domain: u32,
    /// By key. Regions of the same memory and rights have one key.
    regions: HashMap<u64, Vec<WeakRegion>>,
    /// What the provider may still use, by the memory's number.
    held: HashMap<u64, Memory>,
}

impl Granted {
    /// Nothing yet, by a domain of this number.
    pub(super) fn by(domain: u32) -> Self {
        Granted { domain, regions: HashMap::new(), held: HashMap::new() }
    }

    /// Remembers a region, and forgets those that are gone.
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

    /// Keeps memory until [`Granted::release`].
    pub(super) fn hold(&mut self, memory: &Memory) {
        self.held.entry(memory.id()).or_insert_with(|| memory.clone());
    }

    /// The endpoint is closed.
    pub(super) fn release(&mut self) {
        self.held.clear();
    }

    /// Whether the key is any good.
    pub(super) fn holds(&self, key: u64) -> bool {
        self.region(key).is_some()
    }

    /// The bytes that the peer means, if it may do that with them.
    pub(super) fn place(
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

    /// Does an atomic operation for the peer; `None`: it may not.
    pub(super) fn change(&self, key: u64, offset: u64, change: Change) -> Option<u64> {
        let word = self.place(key, offset, 8, Rights { atomic: true, ..Rights::NONE })?;
        if !word.address().addr().is_multiple_of(8) {
            return None;
        }
        let (memory, at) = (word.region().memory(), word.offset());
        Some(match change {
            Change::Add(add) => memory.fetch_add(at, add),
            Change::Swap { expect, new } => memory.compare_swap(at, expect, new),
        })
    }

    /// One that is still registered under the key: who detaches a region takes it back from the peer, and a provider that
    /// chooses keys may give its key to another.
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
    use crate::half::Fabric;
    use crate::memory::Pages;

    #[test]
    fn key_bounds_rights_and_life_are_looked_at() {
        let domain = misbehaving_peer::open();
        let number = domain.shared().device.number();
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let readable = Rights { read: true, atomic: true, ..Rights::NONE };
        let [one, other, third] = [(); 3].map(|()| Region::shared(&memory, readable));
        let regions = [&one, &other, &third];
        regions.iter().for_each(|region| domain.attach(region).unwrap());
        let key = registration(&one, number).unwrap().key();
        let mut granted = Granted::by(number);
        regions.iter().for_each(|region| granted.add(key, region));
        let read = |granted: &Granted, offset, length| {
            granted.place(key, offset, length, Rights { read: true, ..Rights::NONE }).is_some()
        };
        assert!(read(&granted, 4000, 96) && !read(&granted, 4000, 97));
        assert!(!read(&granted, u64::MAX, 2) && !granted.holds(key ^ 1));
        assert!(granted.place(key, 0, 1, Rights::ALL).is_none(), "writing was not granted");
        assert_eq!(granted.change(key, 8, Change::Add(3)), Some(0));
        assert_eq!(granted.change(key, 8, Change::Swap { expect: 3, new: 9 }), Some(3));
        assert_eq!((granted.change(key, 4, Change::Add(1)), memory.load(8)), (None, 9));
        drop(one);
        assert!(granted.holds(key), "others have the same key");
        domain.detach(&other);
        assert!(granted.holds(key), "one is left");
        domain.detach(&third);
        assert!(!granted.holds(key) && !read(&granted, 0, 1), "they are there, and detached");
        assert_eq!((granted.change(key, 8, Change::Add(3)), memory.load(8)), (None, 9));
    }

    #[test]
    fn memory_is_held_once_until_it_is_released() {
        let memory = Memory::from_boxed(vec![0; 64].into()).unwrap();
        let mut granted = Granted::by(0);
        granted.hold(&memory);
        granted.hold(&memory);
        let memory = memory.into_boxed().expect_err("a provider may use it");
        granted.release();
        memory.into_boxed().expect("nobody uses it any more");
    }
}
