//! TCP: for machines without RDMA. The peer's engine executes requests, directly into and
//! out of the registered memory; see `stream_engine`.

mod accept;
mod connect;
mod connection_router;
mod dial;
mod encrypted_socket;
mod lane;
mod lane_parameters;
mod noise;
mod offer;
mod pending_connection;
mod socket;
mod stream_header;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::error::Error;
use crate::memory::Memory;
use crate::region::{Region, Rights};
use crate::setup::{Fabric, Side, UnconnectedLane, register_software};

pub use connection_router::ConnectionRouter;
pub use stream_header::{MAGIC, STREAM_HEADER_BYTES};

/// Creates TCP lanes.
#[derive(Debug, Clone, Default)]
pub struct Tcp {
    config: Config,
}

/// Settings of TCP lanes.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address that the accepting end listens on, at a port chosen by the system. It must be reachable by the peer;
    /// loopback by default.
    pub address: IpAddr,
    /// Delivers connections from a shared listener to the accepting end, which then opens no port of its own.
    /// The dialling end must then set [`listener_address`](Config::listener_address).
    pub router: Option<ConnectionRouter>,
    /// The address of the shared listener of a peer that has a [`router`](Config::router). The offer of a peer with its own port
    /// contains the address.
    pub listener_address: Option<SocketAddr>,
    /// Whether the lane is encrypted and authenticated. Both ends must have the same setting.
    /// Keys are derived from the offers, which the caller must therefore exchange over a private channel.
    /// It costs most of the bandwidth of a fast network.
    pub encrypt: bool,
    /// The number of connections of a lane, 1 to 16; the minimum of both ends is used.
    /// One is best within a machine; several may help on a fast network.
    pub streams: u8,
    /// How long an operation may wait for one of the peer's receives before the lane fails.
    pub receive_timeout: Duration,
    /// How long the peer's host may not answer, or the peer leave its receive buffer full, before the lane
    /// fails. A shorter time detects lost hosts sooner, but may take busy peers for lost.
    pub peer_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            router: None,
            listener_address: None,
            encrypt: false,
            streams: 1,
            receive_timeout: Duration::from_secs(2),
            peer_timeout: Duration::from_secs(30),
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

    fn prepare_lane(&self, side: Side) -> Result<Box<dyn UnconnectedLane>, Error> {
        Ok(Box::new(connect::UnconnectedTcpLane::new(&self.config, side)?))
    }
}

/// The maximum number of connections of one lane.
const MAX_STREAMS: u8 = 16;

/// An offer is refused, or encoded again to the same bytes.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_offer(bytes: &[u8]) {
    if let Ok(offer) = offer::Offer::from_bytes(bytes) {
        assert_eq!(offer.to_bytes(), bytes);
    }
}
