//! TCP: for every machine that has no RDMA. The peer's engine executes what is asked, straight into and
//! out of the registered memory; see `engine`.

mod accept;
mod connect;
mod connection_router;
mod dial;
mod encrypted_socket;
mod hello;
mod lane;
mod noise;
mod offer;
mod pending_connection;
mod socket;
mod terms;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::error::Error;
use crate::memory::Memory;
use crate::region::{Region, Rights};
use crate::setup::{Fabric, Half, Side, register_software};

pub use connection_router::Callers;
pub use hello::{HELLO, MAGIC};

/// Makes TCP lanes.
#[derive(Debug, Clone, Default)]
pub struct Tcp {
    config: Config,
}

/// How TCP lanes are made.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address that the accepting end listens on, at a port the system chooses. The peer must reach
    /// it; loopback unless told otherwise.
    pub address: IpAddr,
    /// Where the accepting end gets its connections from, in place of a port of its own: from a listener that
    /// it shares with others. The dialling end must then know the [`acceptor`](Config::acceptor).
    pub callers: Option<Callers>,
    /// Where the dialling end finds the listener of a peer that has [`callers`](Config::callers). Peers that
    /// listen themselves say where.
    pub acceptor: Option<SocketAddr>,
    /// Whether everything is encrypted: what is sent, and the proofs of who sends it. Both ends must want
    /// it, or neither. The keys come of the offers, which the caller must carry where nobody else reads them.
    /// It costs most of the speed of a fast network.
    pub encrypt: bool,
    /// How many connections a lane spreads its operations over, 1 to 16; the lesser of both ends counts.
    /// One is best on one machine; several may help on a fast network.
    pub streams: u8,
    /// How long an operation may wait for a receive of the peer's before the lane counts as dead.
    pub patience: Duration,
    /// How long the peer's host may be silent, or the peer leave its buffers full, before the lane counts
    /// as dead. Shorter finds lost hosts sooner, and takes busy peers for lost.
    pub silence: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            callers: None,
            acceptor: None,
            encrypt: false,
            streams: 1,
            patience: Duration::from_secs(2),
            silence: Duration::from_secs(30),
        }
    }
}

impl Tcp {
    /// TCP as configured.
    pub fn new(config: Config) -> Self {
        Tcp { config }
    }
}

impl Fabric for Tcp {
    fn register(&self, memory: &Memory, rights: Rights) -> Result<Region, Error> {
        Ok(register_software(memory, rights))
    }

    fn half(&self, side: Side) -> Result<Box<dyn Half>, Error> {
        Ok(Box::new(connect::TcpHalf::new(&self.config, side)?))
    }
}

/// The most connections of one lane.
const MAX_STREAMS: u8 = 16;

/// What a peer offers: well formed and the same again as bytes, or refused.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_offer(bytes: &[u8]) {
    if let Ok(offer) = offer::Offer::from_bytes(bytes) {
        assert_eq!(offer.to_bytes(), bytes);
    }
}
