//! The parameters of a lane, from both offers.

use std::net::TcpStream;

use snow::TransportState;

use super::offer::{ConnectMethod, Offer};
use super::stream_header::{STREAM_HEADER_BYTES, stream_header};
use crate::error::{Error, ErrorKind};

/// What the two ends agree on, and the secrets that authenticate them.
pub(super) struct LaneParameters {
    /// The number of streams of the lane.
    pub(super) streams: u8,
    /// The id of the accepting end.
    id: u128,
    /// The secret that the dialling end sends, and the one it receives.
    pub(super) accept_secret: u128,
    pub(super) dial_secret: u128,
    pub(super) encrypted: bool,
}

/// An authenticated connection.
pub(super) struct AuthenticatedSocket {
    pub(super) socket: TcpStream,
    /// The keys of an encrypted stream.
    pub(super) noise: Option<TransportState>,
}

impl LaneParameters {
    pub(super) fn new(ours: &Offer, peers: &Offer) -> Result<Self, Error> {
        let (dials, accepts) = match (ours.method, peers.method) {
            (ConnectMethod::Dial, ConnectMethod::SharedListener | ConnectMethod::Listen(_)) => {
                (ours, peers)
            }
            (ConnectMethod::SharedListener | ConnectMethod::Listen(_), ConnectMethod::Dial) => {
                (peers, ours)
            }
            _ => {
                let why = "both ends dial, or both accept";
                return Err(refused(why, "let one end dial and the other accept"));
            }
        };
        if ours.encrypted != peers.encrypted {
            let why = match ours.encrypted {
                true => "this end encrypts, but the peer does not",
                false => "the peer encrypts, but this end does not",
            };
            return Err(refused(why, "set `encrypt` at both ends or at neither"));
        }
        Ok(LaneParameters {
            streams: ours.streams.min(peers.streams),
            id: accepts.id,
            accept_secret: accepts.secret,
            dial_secret: dials.secret,
            encrypted: ours.encrypted,
        })
    }

    /// The first message of the dialling end on a stream.
    pub(super) fn stream_header(&self, stream: u8) -> [u8; STREAM_HEADER_BYTES] {
        stream_header(stream, self.id)
    }

    /// The pre-shared key of the two ends.
    pub(super) fn key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&self.accept_secret.to_le_bytes());
        key[16..].copy_from_slice(&self.dial_secret.to_le_bytes());
        key
    }
}

pub(super) fn refused(why: &str, fix: &str) -> Error {
    Error::new(ErrorKind::Misuse, "connect a TCP lane", why, fix)
}
