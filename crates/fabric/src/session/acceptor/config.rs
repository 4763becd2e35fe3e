//! What a listener lets in.

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::session::Config;
use crate::session::keyring::Keyring;
use crate::session::refusal::Refusal;

/// Gives our hello for that of a caller, or refuses it.
pub type HelloCheck = Arc<dyn Fn(&Caller, &[u8]) -> Result<Vec<u8>, Refusal> + Send + Sync>;

/// Takes a connection that greets as a stream of a TCP lane, with its greeting; false: nobody expects it.
pub type Lanes = Arc<dyn Fn([u8; 21], TcpStream) -> bool + Send + Sync>;

/// Takes a connection that speaks something else, with nothing of it read.
pub type Others = Arc<dyn Fn(TcpStream) + Send + Sync>;

/// Somebody who sent a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Where it calls from.
    pub address: SocketAddr,
    /// By what it is known, as in [`crate::session::Session::identity`].
    pub identity: String,
}

/// What a listener lets in. What it calls runs on the listener's thread, and must not take long.
#[derive(Clone)]
pub struct AcceptorConfig {
    /// The keys and tickets that open it.
    pub keyring: Keyring,
    /// Whether callers must show one. Without, everybody who reaches the address gets in, and nothing that
    /// such callers say is encrypted.
    pub require_authentication: bool,
    /// How many handshakes may be unfinished; beyond that the oldest is given up. More stands a larger
    /// flood of silent callers, and costs a descriptor each.
    pub max_half_open: usize,
    /// How long a handshake may take. Shorter sends away callers on slow networks.
    pub handshake: Duration,
    /// How many sessions of this listener may be alive at once.
    pub max_sessions: usize,
    /// How many bytes a caller may say of itself, at most 64 KiB.
    pub max_hello: usize,
    /// How sessions are kept.
    pub session: Config,
    /// Checks every caller's hello.
    pub check: HelloCheck,
    /// Takes connections that are streams of TCP lanes, not blocking.
    pub lanes: Option<Lanes>,
    /// Takes connections that speak something else, not blocking.
    pub others: Option<Others>,
}

impl AcceptorConfig {
    /// Authentication by keys that are still to be added, and limits that suit a node.
    pub fn new(
        check: impl Fn(&Caller, &[u8]) -> Result<Vec<u8>, Refusal> + Send + Sync + 'static,
    ) -> Self {
        AcceptorConfig {
            keyring: Keyring::new(),
            require_authentication: true,
            max_half_open: 256,
            handshake: Duration::from_secs(5),
            max_sessions: 4096,
            max_hello: 32 << 10,
            session: Config::default(),
            check: Arc::new(check),
            lanes: None,
            others: None,
        }
    }
}

impl fmt::Debug for AcceptorConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcceptorConfig")
            .field("keyring", &self.keyring)
            .field("require_authentication", &self.require_authentication)
            .field("max_half_open", &self.max_half_open)
            .field("handshake", &self.handshake)
            .field("max_sessions", &self.max_sessions)
            .field("max_hello", &self.max_hello)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
