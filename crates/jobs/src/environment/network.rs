//! A network: an address and a prefix length.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `10.4.0.0/16`, `fd00::/64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// The network of an address; `None` if the prefix is longer than the address.
    pub(crate) fn of(address: IpAddr, prefix: u8) -> Option<Self> {
        let address = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32u32.checked_sub(prefix.into())?).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128u32.checked_sub(prefix.into())?).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Some(Network { address, prefix })
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        Network::of(address, self.prefix) == Some(*self)
    }

    pub(super) fn prefix(&self) -> u8 {
        self.prefix
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses() {
        let network =
            |address: &str, prefix| Network::of(address.parse().expect("an address"), prefix);
        let ten = network("10.4.7.9", 16).expect("a network");
        assert_eq!(ten.to_string(), "10.4.0.0/16");
        assert!(ten.contains(IpAddr::from([10, 4, 255, 1])));
        assert!(!ten.contains(IpAddr::from([10, 5, 0, 1])));
        let all = network("10.4.7.9", 0).expect("a network");
        assert!(all.contains(IpAddr::from([192, 0, 2, 1])));
        assert!(!all.contains("fd00::1".parse().expect("an address")));
        assert_eq!(network("10.4.7.9", 33), None);
        assert_eq!(network("fd00:1::7", 64).expect("a network").to_string(), "fd00:1::/64");
    }
}
