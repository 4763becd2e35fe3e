//! How a link behaves.

use std::net::IpAddr;
use std::time::Duration;

/// Whether a link may, should or must use RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Only RDMA: refused at connect without it, and never another transport later.
    Require,
    /// RDMA where both ends have it, else another transport. What is not on the same host, that is.
    #[default]
    Prefer,
    /// No RDMA.
    Off,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 3] = [Policy::Require, Policy::Prefer, Policy::Off];

    /// As in settings.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Require => "require",
            Policy::Prefer => "prefer",
            Policy::Off => "off",
        }
    }

    /// What two ends together want; `None` if they cannot agree.
    pub(crate) fn with(self, other: Policy) -> Option<Policy> {
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
    /// How many of its bits count.
    pub prefix: u8,
    /// What to do with peers from there.
    pub policy: Policy,
}

impl PeerPolicy {
    /// Whether a peer with this address is meant.
    pub fn fits(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(v4) => (4, u128::from(u32::from(v4)) << 96),
            IpAddr::V6(v6) => (6, u128::from(v6)),
        };
        let ((family, network), (other, address)) = (bits(self.network), bits(address));
        let unused = 128_u32.saturating_sub(u32::from(self.prefix));
        family == other && (network ^ address).checked_shr(unused).unwrap_or(0) == 0
    }
}

/// How a link behaves. Both ends may differ, but for what the names say.
#[derive(Debug, Clone)]
pub struct Config {
    /// Writes and reads are cut into pieces of this size, which are spread over the rails. Smaller ones
    /// spread better and are lost less when a rail dies; each costs a little.
    pub chunk: usize,
    /// How many bytes may be in flight on one rail. Less leaves a fast rail idle; more must be done again
    /// when one dies.
    pub window: usize,
    /// How many messages may wait at this end for receives of the caller's, on each rail.
    pub messages: u16,
    /// The payload of one message on a lane: longer ones go in parts. Each rail has as many buffers of
    /// this size as there may be messages.
    pub room: usize,
    /// How many operations may be in flight, receives apart.
    pub depth: usize,
    /// How many receives may be posted.
    pub receives: usize,
    /// How many regions a peer may grant.
    pub regions: usize,
    /// A rail on which nothing is completed for so long, while something is in flight, counts as dead.
    /// Shorter finds dead rails sooner, and takes busy ones for dead.
    pub op_timeout: Duration,
    /// How long a rail that died, or could not be set up, is left alone. One that dies again soon waits
    /// twice as long each time.
    pub settle: Duration,
    /// The longest such pause.
    pub longest_pause: Duration,
    /// How often each end sends a beat.
    pub heartbeat: Duration,
    /// How long the peer may send nothing before it counts as gone. It sends when it polls, or sleeps on
    /// its link: one that does neither for so long is taken for gone.
    pub silence: Duration,
    /// How long to go on without any rail before the link ends.
    pub without_rails: Duration,
}

impl Config {
    /// What cannot be meant, in words.
    pub(in crate::link) fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: usize, least: usize, most: usize| {
            let fits = (least..=most).contains(&value);
            fits.then_some(()).ok_or_else(|| format!("{name} is {value}, not {least} to {most}"))
        };
        within("chunk", self.chunk, 1, 1 << 30)?;
        within("window", self.window, 1, usize::MAX)?;
        within("messages", self.messages.into(), 1, 4096)?;
        within("room", self.room, 64, 1 << 20)?;
        within("depth", self.depth, 1, 1 << 16)?;
        within("receives", self.receives, 1, 1 << 20)?;
        within("regions", self.regions, 1, 1 << 16)?;
        for (name, time) in [
            ("op_timeout", self.op_timeout),
            ("settle", self.settle),
            ("heartbeat", self.heartbeat),
            ("without_rails", self.without_rails),
        ] {
            if time.is_zero() {
                return Err(format!("{name} is nothing"));
            }
        }
        match self.heartbeat * 2 > self.silence {
            true => Err("silence is less than two heartbeats".to_owned()),
            false => Ok(()),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            chunk: 1 << 20,
            window: 16 << 20,
            messages: 64,
            room: 4096,
            depth: 1024,
            receives: 4096,
            regions: 4096,
            op_timeout: Duration::from_secs(2),
            settle: Duration::from_secs(2),
            longest_pause: Duration::from_secs(60),
            heartbeat: Duration::from_secs(1),
            silence: Duration::from_secs(30),
            without_rails: Duration::from_secs(30),
        }
    }
}

/// Slots for what links send each other, beside those for messages.
pub(in crate::link) const NOTES: u16 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_compared_by_their_bits() {
        let policy = |network: &str, prefix| PeerPolicy {
            network: network.parse().unwrap(),
            prefix,
            policy: Policy::Off,
        };
        let fits = |policy: PeerPolicy, address: &str| policy.fits(address.parse().unwrap());
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
    fn what_two_ends_want_together() {
        assert_eq!(Policy::Require.with(Policy::Off), None);
        assert_eq!(Policy::Prefer.with(Policy::Off), Some(Policy::Off));
        assert_eq!(Policy::Prefer.with(Policy::Require), Some(Policy::Require));
        for a in Policy::ALL {
            for b in Policy::ALL {
                assert_eq!(a.with(b), b.with(a), "{a:?} {b:?}");
            }
        }
    }
}
