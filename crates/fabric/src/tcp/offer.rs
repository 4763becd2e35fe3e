//! Offers of TCP lanes.

use std::net::{IpAddr, SocketAddr};

use super::MAX_STREAMS;
use crate::error::{Error, ErrorKind};

/// Version 2: version, number of streams, flags, id, secret, and the address of an end that listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) streams: u8,
    pub(super) method: ConnectMethod,
    pub(super) encrypted: bool,
    /// Identifies the accepting end. Visible on the network.
    pub(super) id: u128,
    /// The lane secret of this end: who sends it has the offer.
    pub(super) secret: u128,
}

/// How an end gets its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectMethod {
    Dial,
    /// By a shared listener, whose address the dialling end knows.
    SharedListener,
    Listen(SocketAddr),
}

impl Offer {
    const VERSION: u8 = 2;

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let method = match self.method {
            ConnectMethod::Dial => 0,
            ConnectMethod::SharedListener => ACCEPTS | SHARED_LISTENER,
            ConnectMethod::Listen(_) => ACCEPTS,
        };
        let encrypted = if self.encrypted { ENCRYPTED } else { 0 };
        let mut bytes = vec![Self::VERSION, self.streams, method | encrypted];
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.secret.to_le_bytes());
        if let ConnectMethod::Listen(address) = self.method {
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
                    format!("version {version}, expected {}", Self::VERSION)
                }
                _ => "invalid format".to_owned(),
            };
            let fix = "pass on the peer's offer unchanged; both ends must run compatible versions";
            Error::new(ErrorKind::Misuse, "read a TCP offer", why, fix)
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[version, streams, flags], rest) = bytes.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (secret, rest) = rest.split_first_chunk()?;
        if version != Self::VERSION || streams == 0 || streams > MAX_STREAMS {
            return None;
        }
        let method = match (flags & !ENCRYPTED, rest.len()) {
            (0, 0) => ConnectMethod::Dial,
            (both, 0) if both == ACCEPTS | SHARED_LISTENER => ConnectMethod::SharedListener,
            (ACCEPTS, 6) => {
                ConnectMethod::Listen(address(<[u8; 4]>::try_from(&rest[..4]).ok()?, &rest[4..])?)
            }
            (ACCEPTS, 18) => ConnectMethod::Listen(address(
                <[u8; 16]>::try_from(&rest[..16]).ok()?,
                &rest[16..],
            )?),
            _ => return None,
        };
        let encrypted = flags & ENCRYPTED != 0;
        let (id, secret) = (u128::from_le_bytes(*id), u128::from_le_bytes(*secret));
        Some(Offer { streams, method, encrypted, id, secret })
    }
}

fn address(ip: impl Into<IpAddr>, port: &[u8]) -> Option<SocketAddr> {
    Some(SocketAddr::new(ip.into(), u16::from_le_bytes(port.try_into().ok()?)))
}

const ACCEPTS: u8 = 1;
const SHARED_LISTENER: u8 = 2;
const ENCRYPTED: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(method: ConnectMethod) -> Offer {
        let encrypted = method == ConnectMethod::SharedListener;
        Offer { streams: 3, method, encrypted, id: 1 << 99, secret: 7 << 90 }
    }

    fn methods() -> [ConnectMethod; 4] {
        let at = |address: &str| ConnectMethod::Listen(address.parse().unwrap());
        [
            ConnectMethod::Dial,
            ConnectMethod::SharedListener,
            at("127.0.0.1:80"),
            at("[2001:db8::1]:65535"),
        ]
    }

    #[test]
    fn an_encoded_offer_is_decoded_unchanged() {
        for offer in methods().map(offer) {
            assert_eq!(Offer::from_bytes(&offer.to_bytes()), Ok(offer.clone()));
        }
    }

    #[test]
    fn invalid_bytes_are_refused() {
        for good in methods().map(|method| offer(method).to_bytes()) {
            for bad in [&good[..good.len() - 1], &[&good[..], &[1]].concat()] {
                Offer::from_bytes(bad).expect_err("too short or too long");
            }
            for (at, value) in
                [(1, 0), (1, MAX_STREAMS + 1), (2, good[2] ^ 128), (2, SHARED_LISTENER)]
            {
                let mut bad = good.clone();
                bad[at] = value;
                Offer::from_bytes(&bad).expect_err("an invalid value");
            }
        }
        for bad in [&[][..], &[2], &[0; 35], &[2; 35], &[2; 53]] {
            Offer::from_bytes(bad).expect_err("an invalid offer");
        }
    }

    #[test]
    fn the_error_has_the_version_of_the_offer() {
        // The format of version 1: streams, secret.
        let old = [&[1, 1][..], &[5; 16]].concat();
        let error = Offer::from_bytes(&old).expect_err("an older version").to_string();
        assert!(error.contains("version 1, expected 2"), "{error}");
    }
}
