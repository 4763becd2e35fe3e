//! Somebody who connected and has not proved yet to be the peer.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use snow::TransportState;

use super::hello::HELLO;
use super::noise;
use super::terms::{Met, Terms};
use crate::setup::Side;

pub(super) struct Caller {
    socket: TcpStream,
    received: [u8; LONGEST],
    /// How much of what comes next was received.
    count: usize,
    stage: Stage,
}

/// What comes next.
enum Stage {
    Hello,
    /// The proof, of one who called for this stream.
    Proof(u8),
    /// That it is there, and does not only repeat what the peer said before.
    Confirmation(u8, Box<TransportState>),
}

/// What was received.
pub(super) enum Received {
    Nothing,
    UnknownPeer,
    /// The peer, with this stream.
    Peer(u8),
}

impl Caller {
    pub(super) fn new(socket: TcpStream) -> Option<Self> {
        socket.set_nonblocking(true).ok()?;
        Some(Caller { socket, received: [0; LONGEST], count: 0, stage: Stage::Hello })
    }

    /// One whose hello was read at the listener.
    pub(super) fn with_hello(socket: TcpStream, hello: &[u8; HELLO]) -> Option<Self> {
        let mut caller = Self::new(socket)?;
        caller.received[..HELLO].copy_from_slice(hello);
        caller.count = HELLO;
        Some(caller)
    }

    /// Receives what there is, and not a byte more than belongs here.
    pub(super) fn receive(&mut self, terms: &Terms) -> Received {
        loop {
            let wanted = match self.stage {
                Stage::Hello => HELLO,
                Stage::Proof(_) if terms.encrypted => noise::MESSAGE,
                Stage::Proof(_) => TOKEN,
                Stage::Confirmation(..) => noise::RECORD_OF_NOTHING,
            };
            while self.count < wanted {
                match self.socket.read(&mut self.received[self.count..wanted]) {
                    Ok(0) => return Received::UnknownPeer,
                    Ok(count) => self.count += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return Received::Nothing;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return Received::UnknownPeer,
                }
            }
            self.count = 0;
            match self.understand(wanted, terms) {
                Received::Nothing => {}
                received => return received,
            }
        }
    }

    /// What was received, as far as the next stage.
    fn understand(&mut self, count: usize, terms: &Terms) -> Received {
        let received = &self.received[..count];
        match &mut self.stage {
            Stage::Hello => match (0..terms.streams).find(|at| terms.hello(*at) == received) {
                Some(stream) => self.stage = Stage::Proof(stream),
                None => return Received::UnknownPeer,
            },
            Stage::Proof(stream) if terms.encrypted => {
                let stream = *stream;
                match self.answer(stream, terms) {
                    Ok(noise) => self.stage = Stage::Confirmation(stream, Box::new(noise)),
                    Err(_) => return Received::UnknownPeer,
                }
            }
            Stage::Proof(stream) if terms.accept_token.to_le_bytes() == received => {
                return Received::Peer(*stream);
            }
            Stage::Proof(_) => return Received::UnknownPeer,
            Stage::Confirmation(stream, noise) => {
                let confirmed = noise::is_confirmed(noise, received);
                return if confirmed { Received::Peer(*stream) } else { Received::UnknownPeer };
            }
        }
        Received::Nothing
    }

    /// Answers one who knows the tokens, or says nothing.
    fn answer(&mut self, stream: u8, terms: &Terms) -> io::Result<TransportState> {
        let mut noise = noise::begin(terms, stream, Side::Accept)?;
        noise::read(&mut noise, &self.received[..noise::MESSAGE])?;
        // A new connection has room for so little: what does not go out at once never will.
        self.socket.write_all(&noise::write(&mut noise)?)?;
        noise.into_transport_mode().map_err(io::Error::other)
    }

    /// How near it is to being let in.
    pub(super) fn progress(&self) -> u8 {
        match self.stage {
            Stage::Hello => 0,
            Stage::Proof(_) => 1,
            Stage::Confirmation(..) => 2,
        }
    }

    /// The peer: confirms that to it, where it does not know yet.
    pub(super) fn welcome(mut self, terms: &Terms) -> Option<Met> {
        let noise = match self.stage {
            Stage::Confirmation(_, noise) => Some(*noise),
            _ => {
                self.socket.write_all(&terms.dial_token.to_le_bytes()).ok()?;
                None
            }
        };
        Some(Met { socket: self.socket, noise })
    }
}

impl AsFd for Caller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

const TOKEN: usize = 16;
/// What is said at a time.
const LONGEST: usize = noise::MESSAGE;
