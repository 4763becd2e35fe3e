//! The faults of a wire, and their effect on a packet.

use std::collections::BTreeMap;
use std::time::Duration;

use super::random::Random;

/// The faults of a wire; by default none, and no delay. Both directions have the same
/// faults. Changed by [`World::change`](super::World::change) at any time: packets in flight
/// are not affected.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// The delay of every packet. With a round trip longer than all retries together (see
    /// [`Config`](super::Config)) lanes fail.
    pub delay: Duration,
    /// Maximum of a random additional delay. Operations stay in order.
    pub jitter: Duration,
    /// Maximum of a random additional delay with which operations take effect in any order. If lanes
    /// are ordered (see [`Config::ordered`](super::Config::ordered)), the same as jitter.
    pub reorder: Duration,
    /// The share of lost packets, 0 to 1. Each is sent again a few times, so a low loss
    /// only delays, and a high one ends the lane.
    pub loss: f64,
    /// Bytes per second that one host can send on this wire; `None`: unlimited.
    pub bandwidth: Option<u64>,
    /// An additional delay of every packet, as in a full queue. If longer than all
    /// retries, operations fail at the sender, and then take effect.
    pub hold: Duration,
    /// Nothing can be sent.
    pub dead: bool,
}

/// One wire.
#[derive(Default)]
pub(super) struct Wire {
    pub(super) faults: Faults,
    /// Until when each host is busy sending.
    busy: BTreeMap<String, Duration>,
}

/// The transit of a packet.
pub(super) struct Transit {
    /// When its last byte is sent.
    pub(super) sent_at: Duration,
    /// When it arrives; `None` if it is lost.
    pub(super) arrives_at: Option<Duration>,
}

impl Wire {
    /// Sends a packet of a host.
    pub(super) fn send(
        &mut self,
        host: &str,
        bytes: usize,
        now: Duration,
        random: &mut Random,
    ) -> Transit {
        let Faults { delay, jitter, reorder, loss, hold, dead, .. } = self.faults;
        if dead {
            return Transit { sent_at: now, arrives_at: None };
        }
        let sent_at = self.sent_at(host, bytes, now);
        let late = random.up_to(jitter).saturating_add(random.up_to(reorder));
        let lost = random.happens(loss);
        let takes = delay.saturating_add(hold).saturating_add(late);
        Transit { sent_at, arrives_at: (!lost).then(|| sent_at.saturating_add(takes)) }
    }

    fn sent_at(&mut self, host: &str, bytes: usize, now: Duration) -> Duration {
        if self.faults.bandwidth.is_none() {
            return now;
        }
        let starts = self.busy.get(host).copied().unwrap_or_default().max(now);
        let sent_at = starts.saturating_add(self.send_time(bytes));
        self.busy.insert(host.to_owned(), sent_at);
        sent_at
    }

    /// The time to send this many bytes.
    pub(super) fn send_time(&self, bytes: usize) -> Duration {
        let Some(bandwidth) = self.faults.bandwidth else { return Duration::ZERO };
        let nanoseconds = bytes as u128 * 1_000_000_000 / u128::from(bandwidth.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}
