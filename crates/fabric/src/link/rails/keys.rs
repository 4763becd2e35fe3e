//! The keys of the peer's regions on one lane.
//!
//! A row belongs to the newest region with its index: a region's key is found only by its full id.

use crate::remote::Window;

#[derive(Default)]
pub(super) struct Keys {
    /// By region index.
    rows: Vec<Option<(u64, RegionKey)>>,
}

/// The key of a region on a lane.
pub(in crate::link) enum RegionKey {
    Usable(Window),
    /// The region cannot be reached on this lane.
    Refused,
}

impl Keys {
    /// The key of a region, if it has arrived.
    #[inline]
    pub(super) fn get(&self, region: u64) -> Option<&RegionKey> {
        let (id, key) = self.rows.get(region_index(region))?.as_ref()?;
        (*id == region).then_some(key)
    }

    pub(super) fn set(&mut self, region: u64, key: RegionKey) {
        let at = region_index(region);
        if self.rows.len() <= at {
            self.rows.resize_with(at + 1, || None);
        }
        self.rows[at] = Some((region, key));
    }

    /// Marks the key of a dropped region as refused.
    pub(super) fn refuse(&mut self, region: u64) {
        if let Some(Some((known, key))) = self.rows.get_mut(region_index(region))
            && *known == region
        {
            *key = RegionKey::Refused;
        }
    }
}

/// A region's index in tables: the lower bits of its id.
#[inline]
pub(in crate::link) fn region_index(region: u64) -> usize {
    (region & 0xffff) as usize
}
