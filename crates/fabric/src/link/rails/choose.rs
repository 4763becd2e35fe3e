//! Choosing a rail for an operation: among the active rails the one with the least load relative to its weight.

use super::{RailLane, Rails, RegionKey};
use crate::link::protocol::control::Transport;
use crate::link::protocol::header::MessageClass;
use crate::remote::Window;

/// A rail for an operation.
pub(in crate::link) enum RailChoice {
    Rail(u8, Window),
    /// All are full, or none is up.
    Full,
    /// The region's key has not arrived yet.
    KeyPending,
    /// No rail reaches the region.
    Refused,
}

impl Rails {
    /// The active rail, if there is exactly one.
    #[inline]
    pub(in crate::link) fn single_active_mut(&mut self) -> Option<(u8, &mut RailLane)> {
        let [rail] = self.active[..] else { return None };
        Some((rail, self.rails[usize::from(rail)].lane_mut()?))
    }

    /// Whether the only active rail is shared memory.
    #[inline]
    pub(in crate::link) fn uses_shared_memory(&self) -> bool {
        let transport = |rail: u8| self.rails[usize::from(rail)].plan().transport;
        matches!(self.active[..], [rail] if transport(rail) == Transport::Shm)
    }

    /// A rail for `bytes` to or from a region, with at most `max_in_flight` bytes in flight on each rail.
    #[inline]
    pub(in crate::link) fn choose(
        &mut self,
        region: Option<u64>,
        bytes: u64,
        max_in_flight: u64,
    ) -> RailChoice {
        let Some(region) = region else { return RailChoice::Refused };
        if let [only] = self.active[..] {
            let Some(lane) = self.lane(only) else { return RailChoice::Full };
            return match lane.key(region) {
                Some(RegionKey::Usable(_)) if !lane.has_capacity(bytes, max_in_flight) => {
                    RailChoice::Full
                }
                Some(RegionKey::Usable(there)) => RailChoice::Rail(only, there.clone()),
                Some(RegionKey::Refused) => RailChoice::Refused,
                None => RailChoice::KeyPending,
            };
        }
        self.choose_among(region, bytes, max_in_flight)
    }

    /// The rail with the least load relative to its weight.
    fn choose_among(&mut self, region: u64, bytes: u64, max_in_flight: u64) -> RailChoice {
        let mut best: Option<(u64, usize, &Window)> = None;
        let mut refused = 0;
        let (mut key_pending, mut open) = (false, false);
        for step in 0..self.active.len() {
            let index = (self.next_choice + step) % self.active.len();
            let rail = &self.rails[usize::from(self.active[index])];
            let Some(lane) = rail.lane() else { continue };
            match lane.key(region) {
                None => key_pending = true,
                Some(RegionKey::Refused) => refused += 1,
                Some(RegionKey::Usable(there)) => {
                    open = true;
                    if !lane.has_capacity(bytes, max_in_flight) {
                        continue;
                    }
                    let load =
                        (lane.bytes_in_flight() + bytes + 64) / u64::from(rail.plan().weight);
                    if best.as_ref().is_none_or(|(least, ..)| load < *least) {
                        best = Some((load, index, there));
                    }
                }
            }
        }
        match best {
            Some((_, index, there)) => {
                let choice = RailChoice::Rail(self.active[index], there.clone());
                self.next_choice = if self.active.len() > 1 { index + 1 } else { 0 };
                choice
            }
            None if key_pending && !open => RailChoice::KeyPending,
            None if refused > 0 && refused == self.active.len() => RailChoice::Refused,
            None => RailChoice::Full,
        }
    }

    /// The active rail with capacity for a message and the least load.
    pub(in crate::link) fn for_message(
        &self,
        class: MessageClass,
        max_in_flight: u64,
    ) -> Option<u8> {
        let load = |rail: u8| {
            let entry = &self.rails[usize::from(rail)];
            let lane = entry.lane()?;
            let has_capacity = lane.has_message_capacity(class);
            // A message would wait behind other operations.
            let load = (lane.bytes_in_flight().min(max_in_flight)
                + 64 * u64::from(lane.in_flight()))
                / u64::from(entry.plan().weight);
            has_capacity.then_some(load)
        };
        let rails = self.active.iter().filter_map(|rail| Some((load(*rail)?, *rail)));
        rails.min().map(|(_, rail)| rail)
    }
}
