//! Regions over a link: ours that the peer may use, and the peer's that we know of.
//!
//! A region has an id for the life of the link. The keys by which lanes reach it are told per lane.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::rails::rail::index;
use crate::error::{Error, Kind};
use crate::memory::Memory;
use crate::region::{Granter, Region, Rights, Slice, WeakRegion};

/// Regions of ours that were granted.
#[derive(Default)]
pub(in crate::link) struct Granted {
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
    pub(in crate::link) fn add(&mut self, region: &Region, most: usize) -> Result<u64, Error> {
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
    pub(in crate::link) fn live(&self) -> Vec<(u64, Region)> {
        self.rows.iter().filter_map(|(id, region)| Some((*id, region.upgrade()?))).collect()
    }

    pub(in crate::link) fn get(&self, id: u64) -> Option<Region> {
        let (known, region) = self.rows.get(index(id))?;
        if *known == id { region.upgrade() } else { None }
    }

    /// Eight bytes that the peer may change.
    pub(in crate::link) fn word(&self, id: u64, offset: u64) -> Option<Slice> {
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
    pub(in crate::link) fn take_gone(&self) -> Vec<u64> {
        std::mem::take(&mut *self.gone.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Regions of the peer's that we have heard of, from the caller or from the peer.
#[derive(Default)]
pub(in crate::link) struct PeerRegions {
    rows: Vec<Option<(u64, Standing)>>,
}

/// What we know of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum Standing {
    /// The peer has been asked.
    Asked,
    Granted,
    Gone,
}

impl PeerRegions {
    pub(in crate::link) fn get(&self, id: u64) -> Option<Standing> {
        let (known, standing) = (*self.rows.get(index(id))?)?;
        match known.cmp(&id) {
            Ordering::Equal => Some(standing),
            // Another has its place by now.
            Ordering::Greater => Some(Standing::Gone),
            Ordering::Less => None,
        }
    }

    /// `false`: there are too many.
    pub(in crate::link) fn set(&mut self, id: u64, standing: Standing, most: usize) -> bool {
        let at = index(id);
        if at >= most.min(MAX) {
            return false;
        }
        if self.rows.len() <= at {
            self.rows.resize(at + 1, None);
        }
        if self.rows[at].is_none_or(|(known, _)| known <= id) {
            self.rows[at] = Some((id, standing));
        }
        true
    }

    /// Notes that a region is gone, unless another has its place already.
    pub(in crate::link) fn gone(&mut self, id: u64, most: usize) {
        // One that we never heard of need not be remembered, if there is no place for it.
        let _ = self.set(id, Standing::Gone, most);
    }
}

const MAX: usize = 1 << 16;
