//! The configuration of a listener.

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::session::Config;
use crate::session::keyring::Keyring;
use crate::session::refusal::Refusal;

/// Answers the hello of an initiator with ours, or refuses it.
pub type HelloCheck = Arc<dyn Fn(&InitiatorInfo, &[u8]) -> Result<Vec<u8>, Refusal> + Send + Sync>;

/// Takes a connection that is a stream of a TCP lane, with its stream header; `false`: it is not expected.
pub type LaneHandler = Arc<dyn Fn([u8; 21], TcpStream) -> bool + Send + Sync>;

/// Takes a connection of another protocol, unread.
pub type OtherHandler = Arc<dyn Fn(TcpStream) + Send + Sync>;

/// An initiator that has sent its hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitiatorInfo {
    /// The initiator's address.
    pub address: SocketAddr,
    /// The identity, as in [`crate::session::Session::identity`].
    pub identity: String,
}

/// The configuration of a listener. Its functions are called on the listener's thread, and must be quick.
#[derive(Clone)]
pub struct ListenerConfig {
    /// The keys and tickets for authentication.
    pub keyring: Keyring,
    /// Whether initiators must authenticate. If not, every initiator that reaches the address is accepted, and sessions
    /// without a key are not encrypted.
    pub require_authentication: bool,
    /// The maximum number of unfinished handshakes; beyond that the oldest is given up. Each takes a
    /// descriptor; more of them tolerate a larger flood of silent initiators.
    pub max_half_open: usize,
    /// The time limit of a handshake. A short one refuses initiators on slow networks.
    pub handshake_timeout: Duration,
    /// The maximum number of open sessions of this listener.
    pub max_sessions: usize,
    /// The maximum length of an initiator's hello in bytes, at most 64 KiB.
    pub max_hello: usize,
    /// The configuration of sessions.
    pub session: Config,
    /// Checks every initiator's hello.
    pub check: HelloCheck,
    /// Takes connections that are streams of TCP lanes, in nonblocking mode.
    pub on_lane: Option<LaneHandler>,
    /// Takes connections of other protocols, in nonblocking mode.
    pub on_other: Option<OtherHandler>,
}

impl ListenerConfig {
    /// Requires authentication, with an empty keyring and default limits.
    pub fn new(
        check: impl Fn(&InitiatorInfo, &[u8]) -> Result<Vec<u8>, Refusal> + Send + Sync + 'static,
    ) -> Self {
        ListenerConfig {
            keyring: Keyring::new(),
            require_authentication: true,
            max_half_open: 256,
            handshake_timeout: Duration::from_secs(5),
            max_sessions: 4096,
            max_hello: 32 << 10,
            session: Config::default(),
            check: Arc::new(check),
            on_lane: None,
            on_other: None,
        }
    }
}

impl fmt::Debug for ListenerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerConfig")
            .field("keyring", &self.keyring)
            .field("require_authentication", &self.require_authentication)
            .field("max_half_open", &self.max_half_open)
            .field("handshake_timeout", &self.handshake_timeout)
            .field("max_sessions", &self.max_sessions)
            .field("max_hello", &self.max_hello)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
