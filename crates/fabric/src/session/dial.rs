//! Opens a session to a listener.

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Config;
use super::connection::{Opened, Session};
use super::initiator::{Initiator, Trouble};
use super::key::Key;
use super::outgoing::Outgoing;
use super::ticket::Ticket;
use crate::error::{Error, Kind};
use crate::half::deadline;

/// By what a caller is known. With a key or a ticket both ends are authenticated and all is encrypted;
/// without, nothing is.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// Nothing: whoever is between us can read and change everything.
    None,
    /// A key that the listener's ring has too.
    Key(Key),
    /// A ticket that the listener's ring issued. It works once.
    Ticket(Ticket),
}

/// Opens a session to the listener at `address`, within `limit`: connects, shakes hands, sends `hello` of
/// ourselves and receives the peer's.
pub fn dial(
    address: SocketAddr,
    credentials: &Credentials,
    hello: &[u8],
    config: &Config,
    limit: Duration,
) -> Result<Session, Error> {
    let deadline = deadline(limit);
    let opened = try_dial(address, credentials, hello, config, deadline);
    opened.map_err(|trouble| {
        Error::new(trouble.kind, format!("dial {address}"), trouble.why, trouble.fix)
    })
}

fn try_dial(
    address: SocketAddr,
    credentials: &Credentials,
    hello: &[u8],
    config: &Config,
    deadline: Instant,
) -> Result<Session, Trouble> {
    let mut outgoing = Outgoing::default();
    let initiator = Initiator::new(credentials, hello, &mut outgoing.bytes)?;
    let socket = connect(address, deadline).map_err(unreachable)?;
    let opened = shake_hands(&socket, initiator, &mut outgoing, deadline)?;
    Session::new(socket, *opened, outgoing, config).map_err(unreachable)
}

fn connect(address: SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, left(deadline)?)?;
    // TCP lets a port of ours call itself, where nobody listens.
    if socket.local_addr()? == socket.peer_addr()? {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    socket.set_nodelay(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn shake_hands(
    mut socket: &TcpStream,
    mut initiator: Initiator,
    outgoing: &mut Outgoing,
    deadline: Instant,
) -> Result<Box<Opened>, Trouble> {
    let mut bytes = [0; 16 << 10];
    loop {
        // Where it cannot be sent there may be a reason to be read.
        let sent = outgoing.flush(socket);
        match socket.read(&mut bytes) {
            Ok(0) => return Err(initiator.hung_up()),
            Ok(count) => {
                if let Some(opened) = initiator.take(&bytes[..count], &mut outgoing.bytes)? {
                    return Ok(opened);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                sent.map_err(unreachable)?;
                rest(socket, !outgoing.is_empty(), left(deadline).map_err(too_slow)?);
            }
            Err(error) => return Err(unreachable(error)),
        }
    }
}

/// Sleeps until the listener says something, or takes more of what we say.
fn rest(socket: &TcpStream, writes: bool, limit: Duration) {
    let wanted = if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let mut fds = [PollFd::new(socket, wanted)];
    let _ = poll(&mut fds, Timespec::try_from(limit).ok().as_ref());
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn unreachable(error: io::Error) -> Trouble {
    let fix = "see that the peer is up, that its address can be reached from here, and that no \
                  firewall stands between";
    Trouble::new(Kind::Gone, error, fix)
}

fn too_slow(_: io::Error) -> Trouble {
    let why = "the peer took the connection but did not finish the handshake in time";
    Trouble::new(Kind::Gone, why, "see that Wirelane listens there and is not overloaded")
}
