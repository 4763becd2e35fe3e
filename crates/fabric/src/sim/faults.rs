//! What is wrong with a rail, and what that does to a packet.

use std::collections::BTreeMap;
use std::time::Duration;

use super::random::Random;

/// What is wrong with a rail; by default nothing, and it takes no time either. Each direction suffers
/// alike. Changed by [`World::change`](super::World::change) at any time: what is on its way already
/// stays as it was.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// How long every packet takes. A round trip longer than all retries together (see
    /// [`Config`](super::Config)) is a lane that dies.
    pub delay: Duration,
    /// Up to so much longer, by chance. Operations keep their order all the same.
    pub jitter: Duration,
    /// Up to so much longer, by chance, and operations take effect as they come: in any order. Where lanes
    /// are ordered (see [`Config::ordered`](super::Config::ordered)), no more than jitter.
    pub reorder: Duration,
    /// The share of packets that are lost, 0 to 1. Each is sent again a few times; so a little loss
    /// only delays, and much of it ends the lane.
    pub loss: f64,
    /// Bytes a second, shared by all that one host sends on this rail; `None`: any number.
    pub bandwidth: Option<u64>,
    /// Every packet is held up for so long on top, as a full queue somewhere would. Longer than all
    /// retries: the sender is told that its operations failed, and then they land.
    pub hold: Duration,
    /// Nothing gets on the wire.
    pub dead: bool,
}

/// One rail.
#[derive(Default)]
pub(super) struct Rail {
    pub(super) faults: Faults,
    /// Until when each host is busy sending.
    busy: BTreeMap<String, Duration>,
}

/// A packet's path.
pub(super) struct Trip {
    /// When its last byte has left the sender.
    pub(super) leaves: Duration,
    /// When it arrives; `None` if it is lost.
    pub(super) lands: Option<Duration>,
}

impl Rail {
    /// Puts a packet of a host's on the wire.
    pub(super) fn launch(
        &mut self,
        host: &str,
        bytes: usize,
        now: Duration,
        random: &mut Random,
    ) -> Trip {
        let Faults { delay, jitter, reorder, loss, hold, dead, .. } = self.faults;
        if dead {
            return Trip { leaves: now, lands: None };
        }
        let leaves = self.leaves(host, bytes, now);
        let late = random.up_to(jitter).saturating_add(random.up_to(reorder));
        let lost = random.happens(loss);
        let takes = delay.saturating_add(hold).saturating_add(late);
        Trip { leaves, lands: (!lost).then(|| leaves.saturating_add(takes)) }
    }

    fn leaves(&mut self, host: &str, bytes: usize, now: Duration) -> Duration {
        if self.faults.bandwidth.is_none() {
            return now;
        }
        let begins = self.busy.get(host).copied().unwrap_or_default().max(now);
        let leaves = begins.saturating_add(self.sending(bytes));
        self.busy.insert(host.to_owned(), leaves);
        leaves
    }

    /// How long so many bytes keep the sender busy.
    pub(super) fn sending(&self, bytes: usize) -> Duration {
        let Some(bandwidth) = self.faults.bandwidth else { return Duration::ZERO };
        let nanoseconds = bytes as u128 * 1_000_000_000 / u128::from(bandwidth.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}
