//! How one lane reaches the regions of the peer.
//!
//! A row belongs to the newest region that had its place: a region's key is found only under its whole id.

use crate::remote::Window;

#[derive(Default)]
pub(super) struct Keys {
    /// By the places of the regions.
    rows: Vec<Option<(u64, Key)>>,
}

/// What a lane knows of a region.
pub(in crate::link) enum Key {
    Open(Window),
    /// It cannot be reached by this lane.
    Refused,
}

impl Keys {
    /// The key of a region, if it came.
    #[inline]
    pub(super) fn get(&self, region: u64) -> Option<&Key> {
        let (id, key) = self.rows.get(index(region))?.as_ref()?;
        (*id == region).then_some(key)
    }

    pub(super) fn set(&mut self, region: u64, key: Key) {
        let at = index(region);
        if self.rows.len() <= at {
            self.rows.resize_with(at + 1, || None);
        }
        self.rows[at] = Some((region, key));
    }

    /// A region is gone: its key is of no use.
    pub(super) fn refuse(&mut self, region: u64) {
        if let Some(Some((known, key))) = self.rows.get_mut(index(region))
            && *known == region
        {
            *key = Key::Refused;
        }
    }
}

/// A region's place in tables: the lower bits of its id.
#[inline]
pub(in crate::link) fn index(region: u64) -> usize {
    (region & 0xffff) as usize
}
