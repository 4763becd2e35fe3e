//! Checks whether a lane supports an operation, before the device sees it.

use super::datagram::Datagram;
use super::mr::is_registered;
use super::open_port::OpenPort;
use crate::lane::Caps;
use crate::op::Work;
use crate::region::Slice;
use crate::remote::{AccessMethod, Target};

/// What the check depends on.
pub(super) struct OpCheck<'a> {
    /// The lane's id.
    pub(super) lane: u64,
    pub(super) caps: &'a Caps,
    pub(super) open_port: &'a OpenPort,
    pub(super) datagram: Option<&'a Datagram>,
    /// Whether both devices support atomics.
    pub(super) atomics: bool,
}

impl OpCheck<'_> {
    #[inline]
    pub(super) fn allows(&self, work: &Work) -> bool {
        let local = work.local();
        self.may_use(work)
            && work.target().is_none_or(|target| self.is_importer_of(target))
            && self.datagram.is_none_or(|datagram| datagram.allows(work))
            && match work {
                Work::Write { .. } | Work::Read { .. } => true,
                Work::Receive { .. } => local.len() <= self.caps.max_slices,
                Work::Send { .. } => {
                    local.len() <= self.caps.max_slices && work.total() <= self.caps.max_message
                }
                Work::FetchAdd { old, at, .. } | Work::CompareSwap { old, at, .. } => {
                    self.atomics && old.len() == 8 && is_aligned(old, at)
                }
            }
    }

    /// Whether the device may use the operation's memory. Messages from a shared queue are copied by the CPU.
    #[inline]
    fn may_use(&self, work: &Work) -> bool {
        (self.open_port.shared.is_some() && matches!(work, Work::Receive { .. }))
            || work.local().iter().all(|slice| self.is_ours(slice))
    }

    /// Whether the memory is registered with the lane's device.
    #[inline]
    fn is_ours(&self, slice: &Slice) -> bool {
        is_registered(slice.region(), &self.open_port.pd)
    }

    /// Whether this lane imported the window.
    #[inline]
    fn is_importer_of(&self, target: &Target) -> bool {
        target.window.lane() == self.lane
            && matches!(target.window.access_method(), AccessMethod::Verbs { .. })
    }
}

/// Atomics require 8-byte alignment.
#[inline]
fn is_aligned(old: &Slice, at: &Target) -> bool {
    let remote = match at.window.access_method() {
        AccessMethod::Verbs { address, .. } => address.wrapping_add(at.offset),
        _ => return false,
    };
    old.address().addr().is_multiple_of(8) && remote.is_multiple_of(8)
}
