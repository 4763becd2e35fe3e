//! What both ends know once each has the other's offer.

use std::net::TcpStream;

use snow::TransportState;

use super::hello::{HELLO, hello};
use super::offer::{Approach, Offer};
use crate::error::{Error, Kind};

/// What the two ends agree on, and the secrets by which they know each other.
pub(super) struct Terms {
    /// How many streams the lane has.
    pub(super) streams: u8,
    /// The accepting end's.
    id: u128,
    /// What the dialling end says, and what it is answered.
    pub(super) accept_token: u128,
    pub(super) dial_token: u128,
    pub(super) encrypted: bool,
}

/// A connection of two ends that have proved themselves.
pub(super) struct Met {
    pub(super) socket: TcpStream,
    /// Of an encrypted stream.
    pub(super) noise: Option<TransportState>,
}

impl Terms {
    pub(super) fn new(ours: &Offer, peers: &Offer) -> Result<Self, Error> {
        let (dials, accepts) = match (ours.approach, peers.approach) {
            (Approach::Dials, Approach::Acceptor | Approach::Listens(_)) => (ours, peers),
            (Approach::Acceptor | Approach::Listens(_), Approach::Dials) => (peers, ours),
            _ => {
                let why = "both ends dial, or both accept";
                return Err(refused(why, "let one end dial and the other accept"));
            }
        };
        if ours.encrypted != peers.encrypted {
            let why = match ours.encrypted {
                true => "this end encrypts, and the peer does not",
                false => "the peer encrypts, and this end does not",
            };
            return Err(refused(why, "set `encrypt` at both ends or at neither"));
        }
        Ok(Terms {
            streams: ours.streams.min(peers.streams),
            id: accepts.id,
            accept_token: accepts.token,
            dial_token: dials.token,
            encrypted: ours.encrypted,
        })
    }

    /// What the dialling end says first on a stream.
    pub(super) fn hello(&self, stream: u8) -> [u8; HELLO] {
        hello(stream, self.id)
    }

    /// What only the two ends know.
    pub(super) fn key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&self.accept_token.to_le_bytes());
        key[16..].copy_from_slice(&self.dial_token.to_le_bytes());
        key
    }
}

pub(super) fn refused(why: &str, fix: &str) -> Error {
    Error::new(Kind::Misuse, "connect a TCP lane", why, fix)
}
