//! What the ends of a TCP lane tell each other beforehand.

use std::net::{IpAddr, SocketAddr};

use super::MAX_STREAMS;
use crate::error::{Error, Kind};

/// Version 2: version, number of streams, flags, id, token, and the address of an end that listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) streams: u8,
    pub(super) approach: Approach,
    pub(super) encrypted: bool,
    /// By which the accepting end is called. Everybody on the path sees it.
    pub(super) id: u128,
    /// By which each end knows the other when they meet. Only in offers.
    pub(super) token: u128,
}

/// How an end comes to its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Approach {
    Dials,
    /// By a listener that it shares with others; where that is, the dialling end knows.
    Acceptor,
    Listens(SocketAddr),
}

impl Offer {
    const VERSION: u8 = 2;

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let approach = match self.approach {
            Approach::Dials => 0,
            Approach::Acceptor => ACCEPTS | ACCEPTOR,
            Approach::Listens(_) => ACCEPTS,
        };
        let encrypted = if self.encrypted { ENCRYPTED } else { 0 };
        let mut bytes = vec![Self::VERSION, self.streams, approach | encrypted];
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.token.to_le_bytes());
        if let Approach::Listens(address) = self.approach {
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
            let why = match bytes.first() {
                Some(version) if *version != Self::VERSION => {
                    format!("it is of version {version}, and we know version {}", Self::VERSION)
                }
                _ => "it is none that we know".to_owned(),
            };
            let fix = "carry the peer's offer as it is; both ends must run versions that know \
                          each other";
            Error::new(Kind::Misuse, "read a TCP offer", why, fix)
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[version, streams, flags], rest) = bytes.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (token, rest) = rest.split_first_chunk()?;
        if version != Self::VERSION || streams == 0 || streams > MAX_STREAMS {
            return None;
        }
        let approach = match (flags & !ENCRYPTED, rest.len()) {
            (0, 0) => Approach::Dials,
            (both, 0) if both == ACCEPTS | ACCEPTOR => Approach::Acceptor,
            (ACCEPTS, 6) => {
                Approach::Listens(address(<[u8; 4]>::try_from(&rest[..4]).ok()?, &rest[4..])?)
            }
            (ACCEPTS, 18) => {
                Approach::Listens(address(<[u8; 16]>::try_from(&rest[..16]).ok()?, &rest[16..])?)
            }
            _ => return None,
        };
        let encrypted = flags & ENCRYPTED != 0;
        let (id, token) = (u128::from_le_bytes(*id), u128::from_le_bytes(*token));
        Some(Offer { streams, approach, encrypted, id, token })
    }
}

fn address(ip: impl Into<IpAddr>, port: &[u8]) -> Option<SocketAddr> {
    Some(SocketAddr::new(ip.into(), u16::from_le_bytes(port.try_into().ok()?)))
}

const ACCEPTS: u8 = 1;
const ACCEPTOR: u8 = 2;
const ENCRYPTED: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(approach: Approach) -> Offer {
        let encrypted = approach == Approach::Acceptor;
        Offer { streams: 3, approach, encrypted, id: 1 << 99, token: 7 << 90 }
    }

    fn approaches() -> [Approach; 4] {
        let at = |address: &str| Approach::Listens(address.parse().unwrap());
        [Approach::Dials, Approach::Acceptor, at("127.0.0.1:80"), at("[2001:db8::1]:65535")]
    }

    #[test]
    fn offers_come_back_as_they_were() {
        for offer in approaches().map(offer) {
            assert_eq!(Offer::from_bytes(&offer.to_bytes()), Ok(offer.clone()));
        }
    }

    #[test]
    fn invalid_bytes_are_refused() {
        for good in approaches().map(|approach| offer(approach).to_bytes()) {
            for bad in [&good[..good.len() - 1], &[&good[..], &[1]].concat()] {
                Offer::from_bytes(bad).expect_err("too short or too long");
            }
            for (at, value) in [(1, 0), (1, MAX_STREAMS + 1), (2, good[2] ^ 128), (2, ACCEPTOR)] {
                let mut bad = good.clone();
                bad[at] = value;
                Offer::from_bytes(&bad).expect_err("a number that cannot be");
            }
        }
        for bad in [&[][..], &[2], &[0; 35], &[2; 35], &[2; 53]] {
            Offer::from_bytes(bad).expect_err("no offer");
        }
    }

    #[test]
    fn an_offer_of_another_version_is_named() {
        // As version 1 had it: streams, token.
        let old = [&[1, 1][..], &[5; 16]].concat();
        let error = Offer::from_bytes(&old).expect_err("an older one").to_string();
        assert!(error.contains("version 1, and we know version 2"), "{error}");
    }
}
