//! Regions of ours that the peer may use.
//!
//! A region has a row as long as it lives. Its id is the row's place and, above that, how many there were before: so an
//! id is used once in the life of a link.

use std::sync::{Arc, Mutex, PoisonError};

use super::MAX;
use crate::error::{Error, Kind};
use crate::link::rails::index;
use crate::memory::Memory;
use crate::region::{Granter, Region, Rights, Slice, WeakRegion};

#[derive(Default)]
pub(super) struct Granted {
    rows: Vec<(u64, WeakRegion)>,
    /// How many there ever were: tells older from newer ones in the same place.
    count: u64,
    gone: Arc<Gone>,
}

/// Ids of regions that were dropped since we last looked.
#[derive(Default)]
struct Gone(Mutex<Vec<u64>>);

impl Granter for Gone {
    // The lanes have taken their grants back by themselves: this is for the peer to know.
    fn revoke(&self, key: u128, _: &Memory) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(key as u64);
    }
}

impl Granted {
    /// Gives a region its id.
    pub(super) fn add(&mut self, region: &Region, most: usize) -> Result<u64, Error> {
        let at = self.rows.iter().position(|(_, region)| region.is_gone());
        let at = at.unwrap_or(self.rows.len());
        if at >= most.min(MAX) {
            let why = format!("{} regions are granted on this link already", self.rows.len());
            let fix = "drop regions that are not used, or grant fewer and larger ones";
            return Err(Error::new(Kind::Full, "grant a region", why, fix));
        }
        self.count += 1;
        let id = self.count << 16 | at as u64;
        let row = (id, region.downgrade());
        match self.rows.get_mut(at) {
            Some(free) => *free = row,
            None => self.rows.push(row),
        }
        let gone: Arc<dyn Granter> = self.gone.clone();
        region.granted(Arc::downgrade(&gone), id.into());
        Ok(id)
    }

    /// Those that still are.
    pub(super) fn live(&self) -> Vec<(u64, Region)> {
        self.rows.iter().filter_map(|(id, region)| Some((*id, region.upgrade()?))).collect()
    }

    pub(super) fn get(&self, id: u64) -> Option<Region> {
        let (known, region) = self.rows.get(index(id))?;
        if *known == id { region.upgrade() } else { None }
    }

    /// Eight bytes that the peer may change.
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

    /// Those dropped since the last time.
    pub(super) fn take_gone(&self) -> Vec<u64> {
        std::mem::take(&mut *self.gone.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
