//! A session: an open control connection.

use std::fmt;
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use super::error::{SessionError, SessionErrorKind};
use super::framing::Framing;
use super::listener_handshake::SessionPermit;
use super::outgoing::Outgoing;
use super::{Config, MAX_MESSAGE};
use crate::keepalive;

/// A control connection after its handshake. It sends and receives whole messages; nothing blocks.
pub struct Session {
    socket: TcpStream,
    local: SocketAddr,
    peer: SocketAddr,
    opened: HandshakeResult,
    outgoing: Outgoing,
    /// The first reason why it ended.
    lost: Option<SessionError>,
    /// Whether nothing can be received any more.
    read_closed: bool,
}

/// The result of a handshake.
pub(super) struct HandshakeResult {
    pub(super) framing: Framing,
    pub(super) identity: String,
    pub(super) revocations: u64,
    /// The peer's hello.
    pub(super) hello: Vec<u8>,
    /// Released when the session is dropped.
    pub(super) _permit: Option<SessionPermit>,
}

impl Session {
    /// `outgoing` may contain unsent bytes of the handshake.
    pub(super) fn new(
        socket: TcpStream,
        opened: HandshakeResult,
        outgoing: Outgoing,
        config: &Config,
    ) -> std::io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        keepalive::enable(&socket, config.peer_timeout)?;
        let (local, peer) = (socket.local_addr()?, socket.peer_addr()?);
        Ok(Session { socket, local, peer, opened, outgoing, lost: None, read_closed: false })
    }

    /// The peer's address.
    pub fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    /// The local address.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// The name of the key, or the identity of the ticket, that authenticated the session; `anonymous`
    /// without either. An initiator with a ticket does not know its identity and returns `ticket`.
    pub fn identity(&self) -> &str {
        &self.opened.identity
    }

    /// The number of revocations in the listener's keyring when the peer was authenticated: see
    /// [`Keyring::revocations`](super::Keyring::revocations). 0 at the initiator.
    pub fn revocations(&self) -> u64 {
        self.opened.revocations
    }

    /// Whether messages are encrypted and authenticated.
    pub fn is_encrypted(&self) -> bool {
        self.opened.framing.is_encrypted()
    }

    /// The peer's hello.
    pub fn hello(&self) -> &[u8] {
        &self.opened.hello
    }
}

impl Session {
    /// Queues a message of at most 64 KiB, and sends as much as possible. If too much
    /// is queued, the peer does not read, and the session is lost.
    pub fn send(&mut self, message: &[u8]) -> Result<(), SessionError> {
        self.flush()?;
        if message.len() > MAX_MESSAGE {
            let why =
                format!("message of {} bytes, over the limit of {MAX_MESSAGE}", message.len());
            return Err(self.abort(SessionError::new(SessionErrorKind::Full, why)));
        }
        if self.outgoing.len() + message.len() > MAX_QUEUED {
            let why = format!("the peer does not read: {} bytes are queued", self.outgoing.len());
            return Err(self.abort(SessionError::new(SessionErrorKind::Full, why)));
        }
        self.opened.framing.seal(message, &mut self.outgoing.bytes);
        self.flush()
    }

    /// Sends queued bytes, as many as possible.
    pub fn flush(&mut self) -> Result<(), SessionError> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        let sent = self.outgoing.flush(&self.socket);
        sent.map_err(|error| self.lose(SessionError::socket(&error)))
    }

    /// Whether bytes are queued: then wait for the descriptor to be writable too.
    pub fn wants_to_write(&self) -> bool {
        self.lost.is_none() && !self.outgoing.is_empty()
    }

    /// The next message, if it is complete. Messages that arrived before the session was lost are still returned.
    pub fn receive(&mut self) -> Result<Option<Vec<u8>>, SessionError> {
        loop {
            if self.read_closed {
                return Err(self.end_of_stream());
            }
            match self.opened.framing.next() {
                Ok(Some(message)) => return Ok(Some(message)),
                Ok(None) => {}
                Err(error) => {
                    self.read_closed = true;
                    let why = format!("the peer sent {error}");
                    return Err(self.abort(SessionError::new(SessionErrorKind::ProtocolError, why)));
                }
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    /// Reads from the socket; `false` if there is nothing to read.
    fn read(&mut self) -> Result<bool, SessionError> {
        // Most calls read nothing, so the buffer is not cleared.
        let mut bytes = [MaybeUninit::uninit(); READ_BYTES];
        loop {
            let read = rustix::io::read(&self.socket, &mut bytes).map(|(bytes, _)| &*bytes);
            match read.map_err(std::io::Error::from) {
                Ok([]) => {
                    self.read_closed = true;
                    return Err(self.end_of_stream());
                }
                Ok(bytes) => {
                    self.opened.framing.feed(bytes);
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    self.read_closed = true;
                    return Err(self.lose(SessionError::socket(&error)));
                }
            }
        }
    }

    fn end_of_stream(&mut self) -> SessionError {
        self.lose(SessionError::new(SessionErrorKind::Closed, "the peer closed the connection"))
    }

    /// Shuts the connection down, so that the peer does not wait.
    fn abort(&mut self, lost: SessionError) -> SessionError {
        let _ = self.socket.shutdown(Shutdown::Both);
        self.lose(lost)
    }

    /// Marks the session as lost; the first reason is kept.
    fn lose(&mut self, lost: SessionError) -> SessionError {
        self.lost.get_or_insert(lost).clone()
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("local", &self.local)
            .field("peer", &self.peer)
            .field("identity", &self.identity())
            .field("encrypted", &self.is_encrypted())
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}

/// The maximum number of queued bytes.
const MAX_QUEUED: usize = 4 << 20;
const READ_BYTES: usize = 16 << 10;
