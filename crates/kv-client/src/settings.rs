//! How a client behaves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fabric::session::Credentials;

/// Credentials for a store at this address, to be had within this time. It may block.
pub type CredentialSource =
    Arc<dyn Fn(SocketAddr, Duration) -> Result<Credentials, fabric::Error> + Send + Sync>;

/// How a client behaves.
#[derive(Clone)]
pub struct Settings {
    /// Where stores listen; the first that answers is used, the next when it is lost.
    pub servers: Vec<SocketAddr>,
    /// How much receive buffer to register. Values that are read whole must fit, and all answers in flight.
    pub buffer: usize,
    /// How long a call may take, connecting anew included.
    pub deadline: Duration,
    /// How links are made: which lanes, whose key.
    pub link: fabric::link::Settings,
    /// Asked for every line, where what a store knows us by is good once; else it is what `link` says.
    pub credentials: Option<CredentialSource>,
}

impl Settings {
    /// A client of one store, with everything else as usual.
    pub fn new(server: SocketAddr) -> Self {
        Settings {
            servers: vec![server],
            buffer: 64 << 20,
            deadline: Duration::from_secs(30),
            link: fabric::link::Settings::default(),
            credentials: None,
        }
    }
}
