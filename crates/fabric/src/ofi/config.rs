//! The settings of lanes over libfabric.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The settings of lanes over libfabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The library's file or soname; by default EFA's own, then the system's. A copy that the process has
    /// already loaded is always used.
    pub library: Option<PathBuf>,
    /// The local IP address that lanes use, for providers with IP addresses; the peer must be able to reach it.
    /// By default the provider's first. On a machine with several networks that may be the wrong one.
    pub address: Option<IpAddr>,
    /// How long an operation may be in flight without progress before the lane fails. The peer must poll during
    /// this time, also one that has sent a long message. A shorter timeout detects lost peers sooner, but may
    /// mistake busy peers for lost ones.
    pub timeout: Duration,
    /// How long a message may wait for a receive of the peer before the lane fails.
    pub receive_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            library: None,
            address: None,
            timeout: Duration::from_secs(2),
            receive_timeout: Duration::from_secs(2),
        }
    }
}
