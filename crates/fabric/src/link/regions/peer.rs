//! The peer's regions that are known, from the caller or from the peer.
//!
//! A row belongs to the newest region with its index: older ones with the same index are gone.

use std::cmp::Ordering;

use super::MAX_REGIONS;
use crate::link::rails::region_index;

#[derive(Default)]
pub(super) struct PeerRegions {
    rows: Vec<Option<(u64, RegionState)>>,
}

/// The state of a region of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegionState {
    /// The peer was queried, and has not answered.
    Queried,
    Granted,
    Gone,
}

impl PeerRegions {
    pub(super) fn get(&self, id: u64) -> Option<RegionState> {
        let (known, state) = (*self.rows.get(region_index(id))?)?;
        match known.cmp(&id) {
            Ordering::Equal => Some(state),
            // A newer region has its index.
            Ordering::Greater => Some(RegionState::Gone),
            Ordering::Less => None,
        }
    }

    /// Sets the state of a region; `false`: above the limit.
    pub(super) fn set(&mut self, id: u64, state: RegionState, max_regions: usize) -> bool {
        let at = region_index(id);
        if at >= max_regions.min(MAX_REGIONS) {
            return false;
        }
        if self.rows.len() <= at {
            self.rows.resize(at + 1, None);
        }
        if self.rows[at].is_none_or(|(known, _)| known <= id) {
            self.rows[at] = Some((id, state));
        }
        true
    }

    /// Marks a region as gone, unless a newer one has its index.
    pub(super) fn gone(&mut self, id: u64, max_regions: usize) {
        // A region above the limit cannot be imported: nothing to mark.
        let _ = self.set(id, RegionState::Gone, max_regions);
    }
}
