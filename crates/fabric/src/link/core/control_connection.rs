//! The control connection of a link, and the times of the last message received and the last heartbeat sent.
//!
//! The peer is considered lost if nothing is received for `peer_timeout`; heartbeats of both ends prevent that.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::link::config::Config;
use crate::link::protocol::control::Control;
use crate::op::Failure;

/// The transport of control messages. Neither call blocks.
pub(crate) trait MessageChannel: Send {
    fn send(&mut self, message: &[u8]) -> Result<(), String>;
    /// The next whole message, in order.
    fn receive(&mut self) -> Result<Option<Vec<u8>>, String>;
    /// Readable when there is something to receive.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
    /// Whether to wake when the descriptor is writable.
    fn wants_to_write(&self) -> bool;
}

pub(in crate::link) struct ControlConnection {
    channel: Box<dyn MessageChannel>,
    /// Whether more messages may be waiting to be received.
    has_more: bool,
    last_received: Duration,
    last_heartbeat: Duration,
}

impl ControlConnection {
    pub(super) fn new(channel: Box<dyn MessageChannel>, now: Duration) -> Self {
        ControlConnection { channel, has_more: false, last_received: now, last_heartbeat: now }
    }

    pub(super) fn send(&mut self, message: &Control) -> Result<(), String> {
        self.channel.send(&message.to_bytes())
    }

    /// The next message of the peer, or the reason why the link must end.
    pub(super) fn receive(&mut self, now: Duration) -> Result<Option<Control>, (Failure, String)> {
        let received = self.channel.receive();
        self.has_more = matches!(received, Ok(Some(_)));
        let Some(bytes) = received.map_err(|why| (Failure::PeerGone, why))? else {
            return Ok(None);
        };
        self.last_received = now;
        let message = Control::parse(&bytes).ok_or_else(|| {
            (Failure::ProtocolError, "unknown control message from the peer".to_owned())
        })?;
        Ok(Some(message))
    }

    /// The link has ended: further messages of the peer are not received.
    pub(super) fn ignore_rest(&mut self) {
        self.has_more = false;
    }

    #[inline]
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Whether a heartbeat is due; if so, it counts as sent.
    pub(super) fn take_heartbeat(&mut self, now: Duration, config: &Config) -> bool {
        let due = now >= self.last_heartbeat + config.heartbeat;
        if due {
            self.last_heartbeat = now;
        }
        due
    }

    /// Whether the peer has timed out.
    pub(super) fn has_timed_out(&self, now: Duration, config: &Config) -> bool {
        now >= self.last_received + config.peer_timeout
    }

    /// When the next heartbeat is due, or the peer times out.
    pub(super) fn next_due(&self, config: &Config) -> Duration {
        (self.last_heartbeat + config.heartbeat).min(self.last_received + config.peer_timeout)
    }

    pub(in crate::link) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.channel.fd()
    }

    pub(in crate::link) fn wants_to_write(&self) -> bool {
        self.channel.wants_to_write()
    }
}
