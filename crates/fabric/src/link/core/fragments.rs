//! Writes and reads in fragments: each fragment takes the rail with the least load.

use super::Core;
use crate::link::operations::{Fragment, LaneOpKind};
use crate::link::rails::RailChoice;
use crate::op::Failure;
use crate::remote::Window;

impl Core {
    /// Posts fragments of dead lanes again, then fragments of waiting operations.
    pub(super) fn post_fragments(&mut self) {
        while let Some(fragment) = self.operations.first_retry() {
            match self.try_fragment(&fragment) {
                FragmentResult::Posted => {}
                FragmentResult::Full | FragmentResult::KeyPending => break,
                FragmentResult::Refused => self.abandon(&fragment, Failure::Access),
            }
            self.operations.drop_retry();
        }
        while let Some(fragment) = self.operations.next_fragment(self.config.max_fragment as u64) {
            match self.try_fragment(&fragment) {
                FragmentResult::Posted => self.operations.drop_split(),
                FragmentResult::Full => return self.operations.undo_fragment(&fragment),
                FragmentResult::KeyPending => {
                    self.operations.undo_fragment(&fragment);
                    self.operations.wait_for_key();
                }
                FragmentResult::Refused => self.abandon(&fragment, Failure::Access),
            }
        }
    }

    fn try_fragment(&mut self, fragment: &Fragment) -> FragmentResult {
        let Some(operation) = self.operations.get(fragment.operation) else {
            return FragmentResult::Refused;
        };
        let region = operation.region();
        match self.rails.choose(region, fragment.length, self.config.max_in_flight as u64) {
            RailChoice::Rail(rail, window) => {
                self.post_fragment(rail, *fragment, window);
                FragmentResult::Posted
            }
            RailChoice::Full => FragmentResult::Full,
            RailChoice::KeyPending if region.is_some_and(|region| self.regions.is_gone(region)) => {
                FragmentResult::Refused
            }
            RailChoice::KeyPending => FragmentResult::KeyPending,
            RailChoice::Refused => FragmentResult::Refused,
        }
    }

    pub(super) fn post_fragment(&mut self, rail: u8, fragment: Fragment, window: Window) {
        let Some(operation) = self.operations.get_mut(fragment.operation) else { return };
        let work = operation.start_fragment(&fragment, window);
        self.post_lane_op(rail, fragment.length, work, LaneOpKind::Fragment(fragment));
    }

    /// A fragment cannot be posted, so that its operation fails.
    pub(super) fn abandon(&mut self, fragment: &Fragment, failure: Failure) {
        self.operations.abandon(fragment, failure);
        self.progress(fragment.operation);
    }
}

/// The result of posting a fragment.
enum FragmentResult {
    Posted,
    Full,
    KeyPending,
    Refused,
}
