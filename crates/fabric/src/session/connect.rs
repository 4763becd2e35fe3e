//! Opens a session to a listener.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Config;
use super::connection::{HandshakeResult, Session};
use super::initiator_handshake::{HandshakeError, InitiatorHandshake};
use super::key::Key;
use super::outgoing::Outgoing;
use super::refusal::Reason;
use super::ticket::Ticket;
use crate::error::{Error, ErrorKind};
use crate::setup::deadline;

/// The credentials of an initiator. With a key or a ticket both ends are authenticated and all messages are encrypted;
/// without, neither is.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// None: messages can be read and changed in transit.
    None,
    /// A key that is in the listener's keyring too.
    Key(Key),
    /// A ticket issued by the listener's keyring. It can be used once.
    Ticket(Ticket),
}

/// Opens a session to the listener at `address`, within `limit`: connects, performs the handshake, sends `hello`
/// and receives the peer's.
pub fn connect(
    address: SocketAddr,
    credentials: &Credentials,
    hello: &[u8],
    config: &Config,
    limit: Duration,
) -> Result<Session, Error> {
    let deadline = deadline(limit);
    let opened = try_connect(address, credentials, hello, config, deadline);
    opened.map_err(|HandshakeError { kind, why, fix, refusal }| {
        let error = Error::new(kind, format!("connect to {address}"), why, fix);
        error.with_refusal(refusal.map(Reason::name))
    })
}

fn try_connect(
    address: SocketAddr,
    credentials: &Credentials,
    hello: &[u8],
    config: &Config,
    deadline: Instant,
) -> Result<Session, HandshakeError> {
    let mut outgoing = Outgoing::default();
    let initiator = InitiatorHandshake::new(credentials, hello, &mut outgoing.bytes)?;
    let socket = connect_tcp(address, deadline).map_err(unreachable)?;
    let opened = shake_hands(&socket, initiator, &mut outgoing, deadline)?;
    Session::new(socket, *opened, outgoing, config).map_err(unreachable)
}

fn connect_tcp(address: SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, left(deadline)?)?;
    // If no process listens, TCP may connect a local port to itself.
    if socket.local_addr()? == socket.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    socket.set_nodelay(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn shake_hands(
    mut socket: &TcpStream,
    mut initiator: InitiatorHandshake,
    outgoing: &mut Outgoing,
    deadline: Instant,
) -> Result<Box<HandshakeResult>, HandshakeError> {
    let mut bytes = [0; 16 << 10];
    loop {
        // If sending fails, there may be a refusal to read.
        let sent = outgoing.flush(socket);
        match socket.read(&mut bytes) {
            Ok(0) => return Err(initiator.hung_up()),
            Ok(count) => {
                if let Some(opened) = initiator.take(&bytes[..count], &mut outgoing.bytes)? {
                    return Ok(opened);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sent.map_err(unreachable)?;
                wait(socket, !outgoing.is_empty(), left(deadline).map_err(too_slow)?);
            }
            Err(error) => return Err(unreachable(error)),
        }
    }
}

/// Waits until the socket is readable, or writable if `writes`.
fn wait(socket: &TcpStream, writes: bool, limit: Duration) {
    let wanted = if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let mut fds = [PollFd::new(socket, wanted)];
    let _ = poll(&mut fds, Timespec::try_from(limit).ok().as_ref());
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn unreachable(error: io::Error) -> HandshakeError {
    let fix = "check that the peer is up, that its address is reachable from here, and that no \
    firewall blocks it";
    HandshakeError::new(ErrorKind::Gone, error, fix)
}

fn too_slow(_: io::Error) -> HandshakeError {
    let why = "the peer accepted the connection but did not finish the handshake in time";
    HandshakeError::new(
        ErrorKind::Gone,
        why,
        "check that Wirelane listens there and is not overloaded",
    )
}
