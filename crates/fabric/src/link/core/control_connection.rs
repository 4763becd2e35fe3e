//! The control connection of a link, and when something was last received and sent by it.
//!
//! The peer is there as long as something is received within the time it may be silent; we send a beat as often as
//! its end expects one.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::link::config::Config;
use crate::link::protocol::control::Control;
use crate::op::Failure;

/// What carries control messages. Neither call blocks.
pub(crate) trait Connection: Send {
    fn send(&mut self, message: &[u8]) -> Result<(), String>;
    /// Whole messages, in order.
    fn receive(&mut self) -> Result<Option<Vec<u8>>, String>;
    /// Readable when there is something to receive.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
    /// Whether to wake when the descriptor is writable.
    fn wants_to_write(&self) -> bool;
}

pub(in crate::link) struct ControlConnection {
    connection: Box<dyn Connection>,
    /// Whether the peer may have sent more than we have received.
    has_more: bool,
    last_received: Duration,
    last_beat: Duration,
}

impl ControlConnection {
    pub(super) fn new(connection: Box<dyn Connection>, now: Duration) -> Self {
        ControlConnection { connection, has_more: false, last_received: now, last_beat: now }
    }

    pub(super) fn send(&mut self, message: &Control) -> Result<(), String> {
        self.connection.send(&message.to_bytes())
    }

    /// The next message of the peer's; or why the link must end.
    pub(super) fn receive(&mut self, now: Duration) -> Result<Option<Control>, (Failure, String)> {
        let received = self.connection.receive();
        self.has_more = matches!(received, Ok(Some(_)));
        let Some(bytes) = received.map_err(|why| (Failure::PeerGone, why))? else {
            return Ok(None);
        };
        self.last_received = now;
        let message = Control::parse(&bytes).ok_or_else(|| {
            (Failure::ProtocolError, "an unknown control message of the peer's".to_owned())
        })?;
        Ok(Some(message))
    }

    /// The link is over: what the peer has yet sent is not received.
    pub(super) fn ignore_rest(&mut self) {
        self.has_more = false;
    }

    #[inline]
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Whether a beat is due. If so, it counts as sent.
    pub(super) fn take_beat(&mut self, now: Duration, config: &Config) -> bool {
        let due = now >= self.last_beat + config.heartbeat;
        if due {
            self.last_beat = now;
        }
        due
    }

    /// Whether the peer was silent for too long.
    pub(super) fn is_silent(&self, now: Duration, config: &Config) -> bool {
        now >= self.last_received + config.silence
    }

    /// When a beat is due, or the peer was silent for too long.
    pub(super) fn next_due(&self, config: &Config) -> Duration {
        (self.last_beat + config.heartbeat).min(self.last_received + config.silence)
    }

    pub(in crate::link) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.connection.fd()
    }

    pub(in crate::link) fn wants_to_write(&self) -> bool {
        self.connection.wants_to_write()
    }
}
