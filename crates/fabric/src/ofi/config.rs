//! How lanes over libfabric are made.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How lanes over libfabric are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The library's file or soname; without it EFA's own, then the system's. A copy that the process has
    /// already is used in any case.
    pub library: Option<PathBuf>,
    /// The address of this machine that lanes use, for providers that have IP addresses; the peer must reach it.
    /// Without it the provider's first. On a machine with several networks that may be the wrong one.
    pub address: Option<IpAddr>,
    /// How long an operation may be in flight without any progress before the lane counts as dead. The peer
    /// must poll meanwhile, also one who sent a long message: shorter finds lost peers sooner, and takes busy ones
    /// for lost.
    pub timeout: Duration,
    /// How long a message may wait for a receive of the peer's before the lane counts as dead.
    pub patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            library: None,
            address: None,
            timeout: Duration::from_secs(2),
            patience: Duration::from_secs(2),
        }
    }
}
