//! A session: an open control connection.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use super::error::{Lost, LostKind};
use super::framing::Framing;
use super::outgoing::Outgoing;
use super::responder::Place;
use super::{Config, MAX_MESSAGE};
use crate::keepalive;

/// An authenticated control connection. Whole messages go in and come out; nothing blocks.
pub struct Session {
    socket: TcpStream,
    local: SocketAddr,
    peer: SocketAddr,
    opened: Opened,
    outgoing: Outgoing,
    /// Why it ended first.
    lost: Option<Lost>,
    /// Nothing comes any more.
    deaf: bool,
}

/// What a handshake gives.
pub(super) struct Opened {
    pub(super) framing: Framing,
    pub(super) identity: String,
    pub(super) withdrawals: u64,
    /// The peer's.
    pub(super) hello: Vec<u8>,
    /// Given back when the session is dropped.
    pub(super) _place: Option<Place>,
}

impl Session {
    /// What is on its way out already is what the handshake left.
    pub(super) fn new(
        socket: TcpStream,
        opened: Opened,
        outgoing: Outgoing,
        config: &Config,
    ) -> std::io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        keepalive::keep(&socket, config.silence)?;
        let (local, peer) = (socket.local_addr()?, socket.peer_addr()?);
        Ok(Session { socket, local, peer, opened, outgoing, lost: None, deaf: false })
    }

    /// The peer's end.
    pub fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    /// Our end.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// The name of the key, or the identity of the ticket, by which the ends know each other; `anonymous`
    /// without either. The end that dialled with a ticket does not know its identity and says `ticket`.
    pub fn identity(&self) -> &str {
        &self.opened.identity
    }

    /// How often keys had been taken away from the listener's ring when it knew the peer by one: see
    /// [`Keyring::withdrawals`](super::Keyring::withdrawals). 0 at the end that dialled.
    pub fn withdrawals(&self) -> u64 {
        self.opened.withdrawals
    }

    /// Whether nobody between can read or change what is said.
    pub fn is_encrypted(&self) -> bool {
        self.opened.framing.is_encrypted()
    }

    /// What the peer said of itself.
    pub fn hello(&self) -> &[u8] {
        &self.opened.hello
    }
}

impl Session {
    /// Queues a message of at most 64 KiB, and sends what goes out at once. Where too much
    /// is queued the peer does not read: then the session is lost.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Lost> {
        self.flush()?;
        if message.len() > MAX_MESSAGE {
            let why = format!("a message of {} bytes is too long to be sent", message.len());
            return Err(self.give_up(Lost::new(LostKind::Full, why)));
        }
        if self.outgoing.len() + message.len() > MAX_QUEUED {
            let why = format!("the peer does not read: {} bytes wait for it", self.outgoing.len());
            return Err(self.give_up(Lost::new(LostKind::Full, why)));
        }
        self.opened.framing.seal(message, &mut self.outgoing.bytes);
        self.flush()
    }

    /// Sends what is queued, as far as it goes.
    pub fn flush(&mut self) -> Result<(), Lost> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        let sent = self.outgoing.flush(&self.socket);
        sent.map_err(|error| self.lose(Lost::socket(&error)))
    }

    /// Whether something is queued: then the descriptor's being writable is worth waking for.
    pub fn wants_to_write(&self) -> bool {
        self.lost.is_none() && !self.outgoing.is_empty()
    }

    /// The next message, if all of it came. What came before the session was lost still comes out.
    pub fn receive(&mut self) -> Result<Option<Vec<u8>>, Lost> {
        loop {
            if self.deaf {
                return Err(self.end_of_stream());
            }
            match self.opened.framing.next() {
                Ok(Some(message)) => return Ok(Some(message)),
                Ok(None) => {}
                Err(fault) => {
                    self.deaf = true;
                    let why = format!("the peer sent {fault}");
                    return Err(self.give_up(Lost::new(LostKind::ProtocolError, why)));
                }
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    /// Takes bytes of the socket, and says whether there were any.
    fn read(&mut self) -> Result<bool, Lost> {
        let mut bytes = [0; READ];
        loop {
            match (&self.socket).read(&mut bytes) {
                Ok(0) => {
                    self.deaf = true;
                    return Err(self.end_of_stream());
                }
                Ok(count) => {
                    self.opened.framing.feed(&bytes[..count]);
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    self.deaf = true;
                    return Err(self.lose(Lost::socket(&error)));
                }
            }
        }
    }

    fn end_of_stream(&mut self) -> Lost {
        self.lose(Lost::new(LostKind::Closed, "the peer closed the connection"))
    }

    /// Ends it for the peer too, which else would wait.
    fn give_up(&mut self, lost: Lost) -> Lost {
        let _ = self.socket.shutdown(Shutdown::Both);
        self.lose(lost)
    }

    /// What is lost stays so, for the first reason.
    fn lose(&mut self, lost: Lost) -> Lost {
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

/// How much may wait for the peer to read.
const MAX_QUEUED: usize = 4 << 20;
const READ: usize = 16 << 10;
