//! What the ends of a TCP lane tell each other beforehand.

use std::net::{IpAddr, SocketAddr};

use super::MOST_STREAMS;
use crate::error::{Error, Kind};

/// Version 1: version, number of streams, token, and from the accepting end its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) streams: u8,
    /// By which each end knows the other when they meet.
    pub(super) token: u128,
    pub(super) address: Option<SocketAddr>,
}

impl Offer {
    const VERSION: u8 = 1;

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![Self::VERSION, self.streams];
        bytes.extend(self.token.to_le_bytes());
        if let Some(address) = self.address {
            match address.ip() {
                IpAddr::V4(ip) => bytes.extend(ip.octets()),
                IpAddr::V6(ip) => bytes.extend(ip.octets()),
            }
            bytes.extend(address.port().to_le_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::parse(bytes).ok_or_else(|| {
            let remedy = "carry the peer's offer as it is; both ends must run versions that know \
                          each other";
            Error::new(Kind::Misuse, "read a TCP offer", "it is none that we know", remedy)
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[version, streams], rest) = bytes.split_first_chunk()?;
        let (token, rest) = rest.split_first_chunk()?;
        if version != Self::VERSION || streams == 0 || streams > MOST_STREAMS {
            return None;
        }
        let address = match rest.len() {
            0 => None,
            6 => Some(address(<[u8; 4]>::try_from(&rest[..4]).ok()?, &rest[4..])?),
            18 => Some(address(<[u8; 16]>::try_from(&rest[..16]).ok()?, &rest[16..])?),
            _ => return None,
        };
        Some(Offer { streams, token: u128::from_le_bytes(*token), address })
    }
}

fn address(ip: impl Into<IpAddr>, port: &[u8]) -> Option<SocketAddr> {
    Some(SocketAddr::new(ip.into(), u16::from_le_bytes(port.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_come_back_as_they_were() {
        for address in [None, Some("127.0.0.1:80"), Some("[2001:db8::1]:65535")] {
            let address = address.map(|address| address.parse().unwrap());
            let offer = Offer { streams: 3, token: 1 << 99, address };
            assert_eq!(Offer::from_bytes(&offer.to_bytes()), Ok(offer.clone()));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let good = Offer { streams: 1, token: 5, address: None }.to_bytes();
        for bad in [&good[..17], &[&good[..], &[1]].concat(), &[], &[0; 18], &[1; 30]] {
            Offer::from_bytes(bad).expect_err("no offer");
        }
        let mut many = good;
        many[1] = MOST_STREAMS + 1;
        Offer::from_bytes(&many).expect_err("too many streams");
    }
}
