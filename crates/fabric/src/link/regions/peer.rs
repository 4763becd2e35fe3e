//! Regions of the peer's that we know of, from the caller or from the peer.
//!
//! A row belongs to the newest region that had its place: any older one with that place is gone.

use std::cmp::Ordering;

use super::MAX;
use crate::link::rails::index;

#[derive(Default)]
pub(super) struct PeerRegions {
    rows: Vec<Option<(u64, Standing)>>,
}

/// What we know of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The peer has been asked.
    Asked,
    Granted,
    Gone,
}

impl PeerRegions {
    pub(super) fn get(&self, id: u64) -> Option<Standing> {
        let (known, standing) = (*self.rows.get(index(id))?)?;
        match known.cmp(&id) {
            Ordering::Equal => Some(standing),
            // Another has its place by now.
            Ordering::Greater => Some(Standing::Gone),
            Ordering::Less => None,
        }
    }

    /// `false`: there are too many.
    pub(super) fn set(&mut self, id: u64, standing: Standing, most: usize) -> bool {
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
    pub(super) fn gone(&mut self, id: u64, most: usize) {
        // One that we know nothing of need not be remembered, if there is no place for it.
        let _ = self.set(id, Standing::Gone, most);
    }
}
