//! The control connection between two peers: who they are, and whole messages both ways.
//!
//! A TCP connection begins with a handshake that agrees on a version, authenticates both ends by a common
//! secret and exchanges a hello each, in which an end says what it likes about itself. It knows nothing of
//! lanes, and what messages mean is up to those who stand on it. Nothing here blocks but [`dial()`] and
//! [`Acceptor::accept`], which have limits. The bytes on the wire are described in `docs/protocol.md`.
//!
//! Start at [`Session`]. [`dial()`] connects to an [`Acceptor`], which makes the one at the other end;
//! [`Keyring`] holds the secrets by which a listener knows its callers, [`Credentials`] a caller's own.

mod acceptor;
mod answer;
mod connection;
mod dial;
mod error;
mod framing;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod initiator;
mod key;
mod keyring;
mod noise;
mod outgoing;
mod preface;
mod refusal;
mod responder;
#[cfg(test)]
mod tests;
mod ticket;

use std::time::Duration;

pub use acceptor::{Acceptor, AcceptorConfig, AcceptorCounts, Caller, HelloCheck, Lanes, Others};
pub use connection::Session;
pub use dial::{Credentials, dial};
pub use error::{Lost, LostKind};
pub use key::Key;
pub use keyring::Keyring;
pub(crate) use refusal::SHUTTING_DOWN;
pub use refusal::{Reason, Refusal};
pub use ticket::Ticket;

#[cfg(any(test, feature = "fuzz"))]
pub(crate) use fuzz::handshake as fuzz_handshake;

/// How sessions are kept.
#[derive(Debug, Clone)]
pub struct Config {
    /// How long the peer's host may be silent, or the peer leave its buffers full, before the session
    /// counts as lost. Shorter finds lost hosts sooner, and takes busy networks for lost hosts.
    pub silence: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config { silence: Duration::from_secs(30) }
    }
}

/// The longest message, and the longest hello.
pub(crate) const MAX_MESSAGE: usize = 64 << 10;

/// Whom no key and no ticket authenticated.
const ANONYMOUS: &str = "anonymous";
