//! The configuration of a link.

use std::net::IpAddr;
use std::time::Duration;

/// Whether a link may, should or must use RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Only RDMA: connecting without it fails, and the link never switches to another transport.
    Require,
    /// RDMA if both ends have it, else another transport. Shared memory on the same host comes first.
    #[default]
    Prefer,
    /// No RDMA.
    Off,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 3] = [Policy::Require, Policy::Prefer, Policy::Off];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Require => "require",
            Policy::Prefer => "prefer",
            Policy::Off => "off",
        }
    }

    /// The policy of a link between ends with these policies; `None` if they conflict.
    pub(crate) fn combine(self, other: Policy) -> Option<Policy> {
        match (self, other) {
            (Policy::Require, Policy::Off) | (Policy::Off, Policy::Require) => None,
            (Policy::Prefer, other) => Some(other),
            (one, _) => Some(one),
        }
    }
}

/// A policy for the peers of some network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerPolicy {
    /// An address of the network.
    pub network: IpAddr,
    /// The prefix length in bits.
    pub prefix: u8,
    /// The policy for its peers.
    pub policy: Policy,
}

impl PeerPolicy {
    /// Whether an address is in the network.
    pub fn matches(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(v4) => (4, u128::from(u32::from(v4)) << 96),
            IpAddr::V6(v6) => (6, u128::from(v6)),
        };
        let ((family, network), (other, address)) = (bits(self.network), bits(address));
        let unused = 128_u32.saturating_sub(u32::from(self.prefix));
        family == other && (network ^ address).checked_shr(unused).unwrap_or(0) == 0
    }
}

/// The configuration of a link. The two ends may have different ones.
#[derive(Debug, Clone)]
pub struct Config {
    /// Writes and reads are split into chunks of this many bytes, which are spread over the rails. Smaller ones
    /// balance better and cost less to repeat when a rail dies; each has some overhead.
    pub max_chunk: usize,
    /// The maximum number of bytes in flight on one rail. Less leaves a fast rail idle; more must be repeated
    /// when one dies.
    pub max_in_flight: usize,
    /// The number of receive slots for messages on each rail over RDMA: messages wait there for the caller's receives. Over shared
    /// memory and TCP messages are packets, of which at most 256 are in flight on a rail.
    pub message_slots: u16,
    /// The maximum payload of one message on a lane, in bytes: longer ones are sent in fragments. Each rail has `message_slots`
    /// buffers of this size.
    pub max_payload: usize,
    /// The maximum number of operations in flight, not counting receives.
    pub depth: usize,
    /// The maximum number of posted receives.
    pub max_receives: usize,
    /// The maximum number of regions that each end may grant.
    pub max_regions: usize,
    /// A rail with operations in flight and no completion for this time is considered dead.
    /// A shorter time detects dead rails sooner, but may take busy ones for dead.
    pub op_timeout: Duration,
    /// The pause before a rail that died, or could not be set up, is tried again. It doubles each time if the rail
    /// dies again soon.
    pub retry_delay: Duration,
    /// The longest such pause.
    pub max_retry_pause: Duration,
    /// The interval of heartbeats, which each end sends.
    pub heartbeat: Duration,
    /// A peer that sends nothing for this time is considered lost. Heartbeats are sent while its caller polls or waits
    /// for the link: a peer that does neither for this time is lost.
    pub peer_timeout: Duration,
    /// The link ends if no rail is up for this time.
    pub no_rail_timeout: Duration,
}

impl Config {
    /// Refuses invalid values.
    pub(in crate::link) fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: usize, min: usize, max: usize| {
            let fits = (min..=max).contains(&value);
            fits.then_some(())
                .ok_or_else(|| format!("{name} is {value}; allowed are {min} to {max}"))
        };
        within("max_chunk", self.max_chunk, 1, 1 << 30)?;
        within("max_in_flight", self.max_in_flight, 1, usize::MAX)?;
        within("message_slots", self.message_slots.into(), 1, 4096)?;
        within("max_payload", self.max_payload, 64, 1 << 20)?;
        within("depth", self.depth, 1, 1 << 16)?;
        within("max_receives", self.max_receives, 1, 1 << 20)?;
        within("max_regions", self.max_regions, 1, 1 << 16)?;
        for (name, time) in [
            ("op_timeout", self.op_timeout),
            ("retry_delay", self.retry_delay),
            ("heartbeat", self.heartbeat),
            ("no_rail_timeout", self.no_rail_timeout),
        ] {
            if time.is_zero() {
                return Err(format!("{name} is zero"));
            }
        }
        match self.heartbeat * 2 > self.peer_timeout {
            true => Err("peer_timeout is less than two heartbeats".to_owned()),
            false => Ok(()),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            max_chunk: 1 << 20,
            max_in_flight: 16 << 20,
            message_slots: 64,
            max_payload: 4096,
            depth: 1024,
            max_receives: 4096,
            max_regions: 4096,
            op_timeout: Duration::from_secs(2),
            retry_delay: Duration::from_secs(2),
            max_retry_pause: Duration::from_secs(60),
            heartbeat: Duration::from_secs(1),
            peer_timeout: Duration::from_secs(30),
            no_rail_timeout: Duration::from_secs(30),
        }
    }
}

/// The number of receive slots for internal messages on each rail.
pub(in crate::link) const INTERNAL_SLOTS: u16 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_policies_match_by_network_prefix() {
        let policy = |network: &str, prefix| PeerPolicy {
            network: network.parse().unwrap(),
            prefix,
            policy: Policy::Off,
        };
        let fits = |policy: PeerPolicy, address: &str| policy.matches(address.parse().unwrap());
        assert!(
            fits(policy("10.1.2.3", 32), "10.1.2.3") && !fits(policy("10.1.2.3", 32), "10.1.2.4")
        );
        assert!(
            fits(policy("10.1.0.0", 16), "10.1.9.9") && !fits(policy("10.1.0.0", 16), "10.2.0.0")
        );
        assert!(fits(policy("0.0.0.0", 0), "192.0.2.1") && !fits(policy("0.0.0.0", 0), "::1"));
        assert!(fits(policy("10.1.0.0", 16), "::ffff:10.1.9.9"), "IPv4 in IPv6 is IPv4");
        assert!(fits(policy("2001:db8::", 32), "2001:db8:1::") && !fits(policy("::", 128), "::1"));
    }

    #[test]
    fn policies_of_two_ends_are_combined() {
        assert_eq!(Policy::Require.combine(Policy::Off), None);
        assert_eq!(Policy::Prefer.combine(Policy::Off), Some(Policy::Off));
        assert_eq!(Policy::Prefer.combine(Policy::Require), Some(Policy::Require));
        for a in Policy::ALL {
            for b in Policy::ALL {
                assert_eq!(a.combine(b), b.combine(a), "{a:?} {b:?}");
            }
        }
    }
}
