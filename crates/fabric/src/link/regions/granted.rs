//! Our regions that are granted to the peer.
//!
//! A region has a row as long as it exists. Its id is the row's index and, in the upper bits, a count of grants: an
//! id is used once in the life of a link.

use std::sync::{Arc, Mutex, PoisonError};

use super::MAX_REGIONS;
use crate::error::{Error, ErrorKind};
use crate::link::rails::region_index;
use crate::memory::Memory;
use crate::region::{Region, RevokeHook, Rights, Slice, WeakRegion};

#[derive(Default)]
pub(super) struct Granted {
    rows: Vec<(u64, WeakRegion)>,
    /// The number of grants so far: distinguishes regions with the same index.
    count: u64,
    dropped: Arc<DroppedRegions>,
}

/// Ids of regions that were dropped and not yet reported.
#[derive(Default)]
struct DroppedRegions(Mutex<Vec<u64>>);

impl RevokeHook for DroppedRegions {
    // The lanes revoke their grants themselves: this is to notify the peer.
    fn revoke(&self, key: u128, _: &Memory) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(key as u64);
    }
}

impl Granted {
    /// Assigns an id to a region.
    pub(super) fn add(&mut self, region: &Region, max_regions: usize) -> Result<u64, Error> {
        let at = self.rows.iter().position(|(_, region)| region.is_gone());
        let at = at.unwrap_or(self.rows.len());
        if at >= max_regions.min(MAX_REGIONS) {
            let why = format!("{} regions are granted on this link already", self.rows.len());
            let fix = "drop regions that are not used, or grant fewer and larger ones";
            return Err(Error::new(ErrorKind::Full, "grant a region", why, fix));
        }
        self.count += 1;
        let id = self.count << 16 | at as u64;
        let row = (id, region.downgrade());
        match self.rows.get_mut(at) {
            Some(free) => *free = row,
            None => self.rows.push(row),
        }
        let dropped: Arc<dyn RevokeHook> = self.dropped.clone();
        region.add_grant(Arc::downgrade(&dropped), id.into());
        Ok(id)
    }

    /// All granted regions that still exist.
    pub(super) fn live(&self) -> Vec<(u64, Region)> {
        self.rows.iter().filter_map(|(id, region)| Some((*id, region.upgrade()?))).collect()
    }

    pub(super) fn get(&self, id: u64) -> Option<Region> {
        let (known, region) = self.rows.get(region_index(id))?;
        if *known == id { region.upgrade() } else { None }
    }

    /// Eight bytes that the peer may change with an atomic operation.
    pub(super) fn word(&self, id: u64, offset: u64) -> Option<Slice> {
        let region = self.get(id)?;
        let end = offset.checked_add(8)?;
        let allowed = region.rights().allow(Rights { atomic: true, ..Rights::NONE });
        if !allowed || end > region.len() as u64 {
            return None;
        }
        let word = region.slice(offset as usize..end as usize);
        word.address().addr().is_multiple_of(8).then_some(word)
    }

    /// Takes the ids of dropped regions.
    pub(super) fn take_dropped(&self) -> Vec<u64> {
        std::mem::take(&mut *self.dropped.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
