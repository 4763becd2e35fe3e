//! One end of a TCP lane before it is connected.
//!
//! The dialling end opens the connections and says on each: whom it calls, which stream it is, and the
//! token of the accepting end; that one answers with the token of the dialling end. An unknown peer knows neither.
//! Where the lane is encrypted the tokens are not said but make its keys; see `noise.rs`.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_send_buffer_size;

use super::accept::Entrance;
use super::dial::dial_all;
use super::encrypted_socket::Sealed;
use super::lane::TcpLane;
use super::offer::{Approach, Offer};
use super::socket::Socket;
use super::terms::{Met, Terms, refused};
use super::{Config, MAX_STREAMS};
use crate::error::{Error, Kind};
use crate::grants::random;
use crate::keepalive;
use crate::lane::Lane;
use crate::setup::{Half, Side, deadline};

pub(super) struct TcpHalf {
    config: Config,
    offer: Offer,
    /// Of the accepting end.
    entrance: Option<Entrance>,
}

impl TcpHalf {
    pub(super) fn new(config: &Config, side: Side) -> Result<Self, Error> {
        let id = random()?;
        let entrance = match (side, &config.callers) {
            (Side::Dial, _) => None,
            (Side::Accept, Some(callers)) => Some(Entrance::Acceptor(callers.expect(id)?)),
            (Side::Accept, None) => Some(Entrance::listen(config)?),
        };
        let approach = match &entrance {
            None => Approach::Dials,
            Some(Entrance::Acceptor(_)) => Approach::Acceptor,
            Some(Entrance::Listener(listener)) => Approach::Listens(address(listener)?),
        };
        let streams = config.streams.clamp(1, MAX_STREAMS);
        let offer = Offer { streams, approach, encrypted: config.encrypt, id, token: random()? };
        Ok(TcpHalf { config: config.clone(), offer, entrance })
    }

    /// Where the peer is to be found.
    fn acceptor(&self, peer: &Offer) -> Result<SocketAddr, Error> {
        match peer.approach {
            Approach::Listens(address) => Ok(address),
            Approach::Acceptor | Approach::Dials => self.config.acceptor.ok_or_else(|| {
                let why = "the peer is reached by a listener, and where that is was not said";
                refused(why, "give the address of the peer's listener in `listener`")
            }),
        }
    }
}

impl Half for TcpHalf {
    fn offer(&self) -> Vec<u8> {
        self.offer.to_bytes()
    }

    fn connect(self: Box<Self>, offer: &[u8], limit: Duration) -> Result<Box<dyn Lane>, Error> {
        let peer = Offer::from_bytes(offer)?;
        let deadline = deadline(limit);
        let terms = Terms::new(&self.offer, &peer)?;
        let met = match &self.entrance {
            Some(entrance) => entrance.accept_all(&terms, deadline)?,
            None => dial_all(self.acceptor(&peer)?, &terms, deadline)?,
        };
        let (mut plain, mut sealed) = (Vec::new(), Vec::new());
        for Met { socket, noise } in met {
            let socket = prepare(socket, &self.config)?;
            match noise {
                Some(noise) => sealed.push(Sealed::new(socket, noise)),
                None => plain.push(socket),
            }
        }
        match terms.encrypted {
            true => Ok(Box::new(TcpLane::new(sealed, &self.config)?)),
            false => Ok(Box::new(TcpLane::new(plain, &self.config)?)),
        }
    }
}

fn address(listener: &std::net::TcpListener) -> Result<SocketAddr, Error> {
    listener.local_addr().map_err(|error| {
        let fix = "give an address of this machine, see `ip address`";
        Error::new(Kind::System, "find the port that was given", error, fix)
    })
}

/// As the engine wants it.
pub(super) fn prepare(socket: TcpStream, config: &Config) -> Result<Socket, Error> {
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

/// How much may be in flight within one machine: more falls out of the CPUs' caches before it is
/// read. Measured (two cores with 2 MiB each, 2026-11): 7.4 GB/s so, 5.7 as the system would choose.
const LOCAL_BUFFER: usize = 384 << 10;
