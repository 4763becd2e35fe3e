//! The control connection between two peers: authentication, and messages in both directions.
//!
//! A TCP connection starts with a handshake that negotiates a version, authenticates both ends by a shared
//! secret and exchanges hellos. The content of hellos and messages is defined by the caller; this module knows nothing of
//! lanes. Nothing here blocks but [`connect()`] and
//! [`SessionListener::accept`], which have time limits. `docs/protocol.md` specifies the bytes on the wire.
//!
//! Start at [`Session`]. [`connect()`] connects to a [`SessionListener`], which returns the session at the other end;
//! [`Keyring`] has the secrets that a listener authenticates initiators with, [`Credentials`] an initiator's own.

mod answer;
mod connect;
mod connection;
mod error;
mod framing;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod initiator_handshake;
mod key;
mod keyring;
mod listener;
mod listener_handshake;
mod noise;
mod outgoing;
mod preface;
mod refusal;
#[cfg(test)]
mod tests;
mod ticket;

use std::time::Duration;

pub use connect::{Credentials, connect};
pub use connection::Session;
pub use error::{SessionError, SessionErrorKind};
pub use key::Key;
pub use keyring::Keyring;
pub use listener::{
    HelloCheck, InitiatorInfo, LaneHandler, ListenerConfig, ListenerCounts, OtherHandler,
    SessionListener,
};
pub(crate) use refusal::SHUTTING_DOWN;
pub use refusal::{Reason, Refusal};
pub use ticket::Ticket;

#[cfg(any(test, feature = "fuzz"))]
pub(crate) use fuzz::handshake as fuzz_handshake;

/// The configuration of sessions.
#[derive(Debug, Clone)]
pub struct Config {
    /// The session is lost if the peer's host does not answer for this time, or the peer does not read. A shorter time
    /// detects lost hosts sooner, but may take busy networks for lost hosts.
    pub peer_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config { peer_timeout: Duration::from_secs(30) }
    }
}

/// The maximum length of messages and hellos in bytes.
pub(crate) const MAX_MESSAGE: usize = 64 << 10;

/// The identity of peers without a key or a ticket.
const ANONYMOUS: &str = "anonymous";
