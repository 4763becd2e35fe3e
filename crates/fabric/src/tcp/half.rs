//! One end of a TCP lane before it is connected.
//!
//! The dialling end opens the connections and says on each: which stream it is, and the token of the
//! accepting end; that one answers with the token of the dialling end. A stranger knows neither.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_send_buffer_size;

use super::lane::TcpLane;
use super::offer::Offer;
use super::socket::Socket;
use super::{Config, MOST_STREAMS};
use crate::error::{Error, Kind};
use crate::grants::random;
use crate::keepalive;
use crate::lane::Lane;
use crate::open::{Half, Side, deadline};

pub(super) struct TcpHalf {
    config: Config,
    offer: Offer,
    listener: Option<TcpListener>,
}

impl TcpHalf {
    pub(super) fn new(config: &Config, side: Side) -> Result<Self, Error> {
        let listener = match side {
            Side::Dial => None,
            Side::Accept => Some(listen(config)?),
        };
        let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let streams = config.streams.clamp(1, MOST_STREAMS);
        let offer = Offer { streams, token: random()?, address };
        Ok(TcpHalf { config: config.clone(), offer, listener })
    }
}

impl Half for TcpHalf {
    fn offer(&self) -> Vec<u8> {
        self.offer.to_bytes()
    }

    fn connect(self: Box<Self>, offer: &[u8], limit: Duration) -> Result<Box<dyn Lane>, Error> {
        let peer = Offer::from_bytes(offer)?;
        let deadline = deadline(limit);
        let count = self.offer.streams.min(peer.streams);
        let sockets = match (&self.listener, peer.address) {
            (Some(listener), None) => accept_all(listener, &self.offer, &peer, count, deadline)?,
            (None, Some(address)) => dial_all(address, &self.offer, &peer, count, deadline)?,
            _ => {
                let why = "both ends dial, or both accept";
                let remedy = "let one end dial and the other accept";
                return Err(Error::new(Kind::Misuse, "connect a TCP lane", why, remedy));
            }
        };
        let sockets: Result<Vec<Socket>, Error> =
            sockets.into_iter().map(|socket| prepare(socket, &self.config)).collect();
        Ok(Box::new(TcpLane::new(sockets?, &self.config)?))
    }
}

fn listen(config: &Config) -> Result<TcpListener, Error> {
    let listener = TcpListener::bind((config.address, 0)).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|error| {
        let remedy = "give an address of this machine, see `ip address`";
        Error::new(Kind::System, format!("listen on {}", config.address), error, remedy)
    })
}

/// As the engine wants it.
fn prepare(socket: TcpStream, config: &Config) -> Result<Socket, Error> {
    let prepared = socket
        .set_nodelay(true)
        .and_then(|()| socket.set_nonblocking(true))
        .and_then(|()| keepalive::keep(&socket, config.silence));
    prepared.map_err(|error| {
        Error::new(Kind::System, "prepare a TCP connection", error, "connect anew")
    })?;
    if is_local(&socket) {
        // What the system would choose is right as well, only slower.
        let _ = set_socket_send_buffer_size(&socket, LOCAL_BUFFER);
    }
    Ok(Socket::new(socket))
}

fn is_local(socket: &TcpStream) -> bool {
    match (socket.local_addr(), socket.peer_addr()) {
        (Ok(ours), Ok(theirs)) => ours.ip() == theirs.ip(),
        _ => false,
    }
}

// The dialling end.

fn dial_all(
    address: SocketAddr,
    ours: &Offer,
    peer: &Offer,
    count: u8,
    deadline: Instant,
) -> Result<Vec<TcpStream>, Error> {
    let dial = |stream| {
        dial(address, stream, ours, peer, deadline).map_err(|error| {
            let remedy = "see that the peer is up, that its address can be reached from here, and \
                          that no firewall stands between";
            Error::new(Kind::Gone, format!("connect to {address}"), error, remedy)
        })
    };
    (0..count).map(dial).collect()
}

fn dial(
    address: SocketAddr,
    stream: u8,
    ours: &Offer,
    peer: &Offer,
    deadline: Instant,
) -> std::io::Result<TcpStream> {
    let mut socket = TcpStream::connect_timeout(&address, left(deadline)?)?;
    socket.write_all(&hello(stream, peer.token))?;
    socket.set_read_timeout(Some(left(deadline)?))?;
    let mut answer = [0; 16];
    socket.read_exact(&mut answer)?;
    if u128::from_le_bytes(answer) != ours.token {
        return Err(std::io::Error::other("somebody else answers there"));
    }
    Ok(socket)
}

fn left(deadline: Instant) -> std::io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

pub(super) fn hello(stream: u8, token: u128) -> [u8; HELLO] {
    let mut hello = [0; HELLO];
    hello[..4].copy_from_slice(MAGIC);
    hello[4] = stream;
    hello[5..].copy_from_slice(&token.to_le_bytes());
    hello
}

// The accepting end.

/// Strangers may call too, and say nothing: they cost a place among the callers, never the lane.
fn accept_all(
    listener: &TcpListener,
    ours: &Offer,
    peer: &Offer,
    count: u8,
    deadline: Instant,
) -> Result<Vec<TcpStream>, Error> {
    let mut streams: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
    let mut callers: Vec<Caller> = Vec::new();
    while streams.iter().any(Option::is_none) {
        let Ok(left) = left(deadline) else { return Err(nobody_came(listener)) };
        rest(listener, &callers, left);
        match listener.accept() {
            Ok((socket, _)) => callers.extend(Caller::new(socket)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // Without descriptors the caller stays at the door, which stays readable.
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
        for at in (0..callers.len()).rev() {
            match callers[at].listen() {
                Heard::Nothing => {}
                Heard::Stranger => drop(callers.remove(at)),
                Heard::Hello(said) => {
                    let caller = callers.remove(at);
                    let stream = (0..count).find(|stream| hello(*stream, ours.token) == said);
                    let free = stream.and_then(|at| streams.get_mut(usize::from(at)));
                    if let Some(free) = free.filter(|free| free.is_none()) {
                        *free = caller.welcome(peer.token);
                    }
                }
            }
        }
        // After all were heard: the peer speaks as soon as it is there, so the oldest silent one is not it.
        if callers.len() > MOST_CALLERS {
            callers.remove(0);
        }
    }
    Ok(streams.into_iter().flatten().collect())
}

fn nobody_came(listener: &TcpListener) -> Error {
    let address = listener.local_addr().map_or("?".to_owned(), |address| address.to_string());
    let remedy = "see that the peer dials and that no firewall stands between";
    Error::new(Kind::Gone, format!("accept on {address}"), "the peer did not come in time", remedy)
}

/// Sleeps until somebody calls or says something.
fn rest(listener: &TcpListener, callers: &[Caller], limit: Duration) {
    let fds = std::iter::once(listener.as_fd()).chain(callers.iter().map(|c| c.socket.as_fd()));
    let mut fds: Vec<PollFd<'_>> =
        fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let _ = poll(&mut fds, Timespec::try_from(limit).ok().as_ref());
}

/// Somebody who connected and has not said yet who it is.
struct Caller {
    socket: TcpStream,
    said: [u8; HELLO],
    count: usize,
}

enum Heard {
    Nothing,
    Stranger,
    Hello([u8; HELLO]),
}

impl Caller {
    fn new(socket: TcpStream) -> Option<Self> {
        socket.set_nonblocking(true).ok()?;
        Some(Caller { socket, said: [0; HELLO], count: 0 })
    }

    fn listen(&mut self) -> Heard {
        match self.socket.read(&mut self.said[self.count..]) {
            Ok(0) => Heard::Stranger,
            Ok(count) => {
                self.count += count;
                if self.count == HELLO { Heard::Hello(self.said) } else { Heard::Nothing }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Heard::Nothing,
            Err(_) => Heard::Stranger,
        }
    }

    /// A new connection has room for so little: what does not go out at once never will.
    fn welcome(mut self, token: u128) -> Option<TcpStream> {
        self.socket.write_all(&token.to_le_bytes()).ok()?;
        Some(self.socket)
    }
}

/// How much may be under way within one machine: more falls out of the processors' caches before it is
/// read. Measured (two cores with 2 MiB each, 2026-11): 7.4 GB/s so, 5.7 as the system would choose.
const LOCAL_BUFFER: usize = 384 << 10;
const MAGIC: &[u8; 4] = b"WLT1";
const HELLO: usize = 4 + 1 + 16;
/// How many may be connected before they have said who they are.
const MOST_CALLERS: usize = 64;
