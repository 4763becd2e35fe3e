//! A usable port, as a host describes it to a peer, and its encoding. Decoding is strict, since the bytes
//! are untrusted.

use std::fmt;
use std::net::IpAddr;

use super::attributes::{mtu_bytes, mtu_code};
use super::choose::Choice;
use super::gid::{Gid, GidType};
use super::interfaces::prefix_length;
use super::port::LinkLayer;
use crate::error::{Error, ErrorKind};

/// A usable port. [`pair()`](super::pair()) pairs those of two hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsablePort {
    /// The device's name: 1 to 64 characters of printable ASCII.
    pub device: String,
    /// The port's number, from 1.
    pub port: u8,
    /// The link layer.
    pub link_layer: LinkLayer,
    /// Its GID; all zero on an InfiniBand port that has none.
    pub gid: Gid,
    /// `None` if the library does not report it.
    pub gid_type: Option<GidType>,
    /// The prefix length of its IP subnet; `None` if unknown.
    pub prefix: Option<u8>,
    /// Bytes: 256, 512, 1024, 2048 or 4096.
    pub mtu: u32,
    /// Megabits per second; 0 if the driver does not report it.
    pub rate_mbps: u64,
}

impl UsablePort {
    /// Describes a chosen port. Looks up the subnet of its address.
    pub fn of(choice: &Choice) -> Self {
        let gid = choice.gid.as_ref();
        let address = gid.filter(|_| choice.link_layer == LinkLayer::Ethernet);
        UsablePort {
            device: printable(&choice.device),
            port: choice.port.max(1),
            link_layer: choice.link_layer,
            gid: gid.map_or(Gid([0; 16]), |entry| entry.gid),
            gid_type: gid.and_then(|entry| entry.kind),
            prefix: address.and_then(|entry| prefix_length(entry.gid.ip())),
            mtu: mtu_bytes(mtu_code(choice.mtu)),
            rate_mbps: choice.rate_mbps,
        }
    }

    /// The maximum length of the encoding.
    pub const MAX_BYTES: usize = FIXED_BYTES + MAX_NAME_BYTES;
    const VERSION: u8 = 1;

    /// Encodes it for the peer.
    pub fn to_bytes(&self) -> Vec<u8> {
        let name = printable(&self.device);
        let mut bytes = Vec::with_capacity(FIXED_BYTES + name.len());
        bytes.extend([Self::VERSION, self.link_layer as u8, gid_type_code(self.gid_type)]);
        bytes.extend([mtu_code(self.mtu), self.port, self.prefix.unwrap_or(UNKNOWN_PREFIX)]);
        bytes.extend([name.len() as u8, 0]);
        bytes.extend(self.rate_mbps.to_le_bytes());
        bytes.extend(self.gid.0);
        bytes.extend(name.as_bytes());
        bytes
    }

    /// Decodes a peer's port.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::parse(bytes).map_err(|why| {
            let fix = "pass the peer's bytes unchanged; both ends must run compatible versions";
            Error::new(ErrorKind::Misuse, "read a peer's port", why, fix)
        })
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let version = bytes.first().copied().ok_or("it is empty")?;
        if version != Self::VERSION {
            return Err(format!(
                "unsupported format {version} (this version supports {})",
                Self::VERSION
            ));
        }
        let (fixed, name) = bytes
            .split_first_chunk::<FIXED_BYTES>()
            .ok_or_else(|| format!("{} bytes, expected at least {FIXED_BYTES}", bytes.len()))?;
        let [_, layer, gid_type, mtu, port, prefix, length, reserved, ..] = *fixed;
        let valid_name = (1..=MAX_NAME_BYTES).contains(&name.len())
            && name.len() == usize::from(length)
            && name.iter().all(u8::is_ascii_graphic);
        if !valid_name {
            return Err("invalid device name".to_owned());
        }
        let gid = Gid(fixed[16..].try_into().expect("sixteen bytes"));
        let max_prefix = if gid.ip().is_ipv4() { 32 } else { 128 };
        let in_range = (1..=5).contains(&mtu)
            && port > 0
            && (prefix <= max_prefix || prefix == UNKNOWN_PREFIX)
            && reserved == 0;
        if !in_range {
            return Err("a field is out of range".to_owned());
        }
        Ok(UsablePort {
            device: name.iter().copied().map(char::from).collect(),
            port,
            link_layer: link_layer(layer)?,
            gid,
            gid_type: gid_type_of(gid_type)?,
            prefix: (prefix != UNKNOWN_PREFIX).then_some(prefix),
            mtu: mtu_bytes(mtu),
            rate_mbps: u64::from_le_bytes(fixed[8..16].try_into().expect("eight bytes")),
        })
    }

    /// The subnet that contains both addresses, if there is one.
    pub(super) fn shared_subnet(&self, other: &UsablePort) -> Option<Subnet> {
        let (ours, theirs) = (self.subnet(other), other.subnet(self));
        (ours == theirs).then_some(ours)
    }

    /// Its subnet, with the longer prefix of both ports, so that the result is symmetric. If neither prefix is known,
    /// the address alone.
    pub(super) fn subnet(&self, other: &UsablePort) -> Subnet {
        let (address, bits) = match self.gid.ip() {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let prefix = self.prefix.max(other.prefix).unwrap_or(bits).min(bits);
        let mask = !u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
        Subnet { bits, address: address & mask, prefix }
    }
}

impl fmt::Display for UsablePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.device, self.port)
    }
}

/// An IP subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subnet {
    /// The length of an address: 32 or 128.
    bits: u8,
    /// Left-aligned, zeros after the prefix.
    address: u128,
    prefix: u8,
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = match self.bits {
            32 => IpAddr::V4(((self.address >> 96) as u32).into()),
            _ => IpAddr::V6(self.address.into()),
        };
        write!(f, "{address}/{}", self.prefix)
    }
}

/// A name in printable ASCII, as the kernel's are; other characters become `?`.
fn printable(name: &str) -> String {
    let one = |char: char| if char.is_ascii_graphic() { char } else { '?' };
    let name: String = name.chars().map(one).take(MAX_NAME_BYTES).collect();
    if name.is_empty() { "?".to_owned() } else { name }
}

fn gid_type_code(kind: Option<GidType>) -> u8 {
    kind.map_or(0, |kind| kind as u8 + 1)
}

fn gid_type_of(code: u8) -> Result<Option<GidType>, String> {
    [None, Some(GidType::Ib), Some(GidType::RoceV1), Some(GidType::RoceV2)]
        .into_iter()
        .find(|kind| gid_type_code(*kind) == code)
        .ok_or_else(|| format!("unknown GID type {code}"))
}

fn link_layer(code: u8) -> Result<LinkLayer, String> {
    [LinkLayer::InfiniBand, LinkLayer::Ethernet, LinkLayer::Unknown]
        .into_iter()
        .find(|layer| *layer as u8 == code)
        .ok_or_else(|| format!("unknown link layer {code}"))
}

/// The length of the encoding before the name.
const FIXED_BYTES: usize = 32;
/// The kernel allows 63.
const MAX_NAME_BYTES: usize = 64;
/// The encoded prefix length if it is not known.
const UNKNOWN_PREFIX: u8 = 255;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn port(device: &str, address: &str, prefix: u8) -> UsablePort {
        UsablePort {
            device: device.to_owned(),
            port: 1,
            link_layer: LinkLayer::Ethernet,
            gid: address.parse().expect("an address"),
            gid_type: Some(GidType::RoceV2),
            prefix: Some(prefix),
            mtu: 4096,
            rate_mbps: 100_000,
        }
    }

    #[test]
    fn ports_decode_to_what_was_encoded() {
        let longest = "x".repeat(64);
        let zero = Gid([0; 16]);
        for port in [
            port("mlx5_0", "10.77.0.1", 24),
            port(&longest, "2001:db8::1", 128),
            UsablePort { prefix: None, gid_type: None, mtu: 256, ..port("a", "10.0.0.1", 0) },
            UsablePort {
                link_layer: LinkLayer::InfiniBand,
                gid: zero,
                port: 255,
                ..port("b", "::1", 0)
            },
            UsablePort {
                link_layer: LinkLayer::Unknown,
                rate_mbps: u64::MAX,
                ..port("c", "fe80::1", 64)
            },
        ] {
            let bytes = port.to_bytes();
            assert!(bytes.len() <= UsablePort::MAX_BYTES);
            assert_eq!(UsablePort::from_bytes(&bytes), Ok(port));
        }
    }

    #[test]
    fn invalid_bytes_are_refused() {
        let good = port("mlx5_0", "10.77.0.1", 24).to_bytes();
        UsablePort::from_bytes(&[]).expect_err("empty");
        for length in 0..good.len() {
            UsablePort::from_bytes(&good[..length]).expect_err("too short");
        }
        UsablePort::from_bytes(&[&good[..], b"x"].concat()).expect_err("too long");
        for (at, value) in [
            (0, 2),
            (1, 3),
            (2, 4),
            (3, 0),
            (3, 6),
            (4, 0),
            (5, 33),
            (5, 254),
            (6, 5),
            (7, 1),
            (32, b' '),
            (33, 0),
            (34, 0x80),
        ] {
            let mut bad = good.clone();
            bad[at] = value;
            UsablePort::from_bytes(&bad).expect_err("invalid field");
        }
        let nameless = &port("", "::1", 0).to_bytes()[..FIXED_BYTES];
        UsablePort::from_bytes(nameless).expect_err("no name");
        let mut long = port(&"x".repeat(64), "::1", 0).to_bytes();
        long.push(b'x');
        long[6] = 65;
        UsablePort::from_bytes(&long).expect_err("a name too long");
    }

    #[test]
    fn a_port_is_described_from_its_choice() {
        let choice = Choice {
            device: "löng name".to_owned(),
            port: 2,
            gid: None,
            link_layer: LinkLayer::InfiniBand,
            mtu: 3000,
            rate_mbps: 7,
            why: String::new(),
        };
        let port = UsablePort::of(&choice);
        assert_eq!((port.device.as_str(), port.port, port.mtu), ("l?ng?name", 2, 2048));
        assert_eq!((port.gid, port.prefix, port.rate_mbps), (Gid([0; 16]), None, 7));
        assert_eq!(UsablePort::from_bytes(&port.to_bytes()), Ok(port));
    }

    #[test]
    fn the_longer_known_prefix_is_used() {
        let shared = |a: &UsablePort, b: &UsablePort| {
            assert_eq!(a.shared_subnet(b), b.shared_subnet(a));
            a.shared_subnet(b).map(|subnet| subnet.to_string())
        };
        let (a, b) = (port("a", "10.77.0.1", 24), port("b", "10.77.0.200", 16));
        let c = port("c", "10.77.1.1", 16);
        assert_eq!(shared(&a, &b).as_deref(), Some("10.77.0.0/24"));
        assert_eq!(shared(&b, &c).as_deref(), Some("10.77.0.0/16"));
        assert_eq!(shared(&a, &c), None);
        let unknown = UsablePort { prefix: None, ..b.clone() };
        assert_eq!(shared(&a, &unknown).as_deref(), Some("10.77.0.0/24"));
        assert_eq!(shared(&unknown, &UsablePort { prefix: None, ..a.clone() }), None);
        assert_eq!(shared(&unknown, &unknown).as_deref(), Some("10.77.0.200/32"));
        let (d, e) = (port("d", "2001:db8::1", 64), port("e", "2001:db8::2:1", 64));
        assert_eq!(shared(&d, &e).as_deref(), Some("2001:db8::/64"));
        assert_eq!(shared(&port("f", "::1", 0), &port("g", "0.0.0.1", 0)), None, "two families");
    }

    /// Any bytes are a port or an error, and a port encodes to exactly these bytes.
    #[test]
    fn random_bytes_are_refused_or_encode_identically() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut accepted = 0;
        for _ in 0..50_000 {
            let mut bytes = port("rxe0", "10.77.0.1", 24).to_bytes();
            for _ in 0..random() % 3 {
                let at = random() as usize % bytes.len();
                bytes[at] = random() as u8;
            }
            if let Ok(port) = UsablePort::from_bytes(&bytes) {
                assert_eq!(port.to_bytes(), bytes);
                accepted += 1;
            }
        }
        assert!(accepted > 1000, "{accepted}");
    }
}
