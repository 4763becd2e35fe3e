//! A connection during its handshake.

use std::io::{ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use crate::session::connection::HandshakeResult;
use crate::session::listener_handshake::{
    HandshakeContext, HandshakeRefusal, HandshakeStep, ListenerHandshake,
};
use crate::session::outgoing::Outgoing;
use crate::session::preface::MAGIC;
use crate::session::refusal::Reason;

pub(super) struct HalfOpen {
    pub(super) socket: TcpStream,
    address: SocketAddr,
    pub(super) deadline: Instant,
    pub(super) outgoing: Outgoing,
    stage: Stage,
}

enum Stage {
    /// The protocol is not known yet.
    Unknown,
    Lane {
        received: [u8; STREAM_HEADER_BYTES],
        count: usize,
    },
    Handshake(ListenerHandshake),
    /// It was refused. Further bytes are read and discarded: closing with unread bytes would
    /// reset the connection, and the refusal would be lost.
    Draining {
        received: usize,
    },
}

/// The next action.
pub(super) enum Action {
    Wait,
    Open(Box<HandshakeResult>),
    Lane([u8; STREAM_HEADER_BYTES]),
    Other,
    /// The refusal is sent, then the connection is closed.
    Refused(HandshakeRefusal),
    /// The initiator closed the connection during the handshake.
    Truncated,
    /// A refused initiator is done.
    Gone,
}

impl HalfOpen {
    pub(super) fn new(socket: TcpStream, address: SocketAddr, deadline: Instant) -> Self {
        let outgoing = Outgoing::default();
        HalfOpen { socket, address, deadline, outgoing, stage: Stage::Unknown }
    }

    /// Reads and writes until it would block. Nothing is left unread, since events are edge-triggered.
    pub(super) fn advance(
        &mut self,
        context: &Arc<HandshakeContext>,
        hung_up: bool,
        now: Instant,
    ) -> Action {
        loop {
            let next = match &mut self.stage {
                Stage::Unknown => self.detect_protocol(context, hung_up),
                Stage::Lane { received, count } => {
                    read_stream_header(&self.socket, received, count)
                }
                Stage::Handshake(listener) => {
                    handshake(&self.socket, listener, &mut self.outgoing, now)
                }
                Stage::Draining { received } => drain(&self.socket, received, &mut self.outgoing),
            };
            match next {
                Some(Action::Refused(refusal)) => {
                    self.stage = Stage::Draining { received: 0 };
                    return Action::Refused(refusal);
                }
                Some(next) => return next,
                None => {}
            }
        }
    }

    /// Refuses an initiator that takes too long, or is one too many, if it uses our protocol. Returns whether it was
    /// not refused before.
    pub(super) fn give_up(&mut self, refusal: &HandshakeRefusal) -> bool {
        if let Stage::Handshake(listener) = &mut self.stage {
            listener.refuse(refusal, &mut self.outgoing.bytes);
            let _ = self.outgoing.flush(&self.socket);
        }
        !matches!(self.stage, Stage::Draining { .. })
    }

    /// Peeks at the first bytes: the connection may be for another protocol.
    fn detect_protocol(
        &mut self,
        context: &Arc<HandshakeContext>,
        hung_up: bool,
    ) -> Option<Action> {
        let mut first = [0; 4];
        let count = match self.socket.peek(&mut first) {
            Ok(0) => return Some(Action::Truncated),
            Ok(count) => count,
            Err(error) => return read_error(&error),
        };
        let received = &first[..count];
        match count {
            4 if first == *MAGIC => {
                self.stage = Stage::Handshake(ListenerHandshake::new(context, self.address));
                None
            }
            4 if first == *LANE_MAGIC => {
                self.stage = Stage::Lane { received: [0; STREAM_HEADER_BYTES], count: 0 };
                None
            }
            ..4 if hung_up => Some(Action::Truncated),
            ..4 if MAGIC.starts_with(received) || LANE_MAGIC.starts_with(received) => {
                Some(Action::Wait)
            }
            _ => Some(Action::Other),
        }
    }
}

/// Reads the header of a lane's stream, and nothing of what follows.
fn read_stream_header(
    mut socket: &TcpStream,
    received: &mut [u8; STREAM_HEADER_BYTES],
    count: &mut usize,
) -> Option<Action> {
    match socket.read(&mut received[*count..]) {
        Ok(0) => Some(Action::Truncated),
        Ok(more) => {
            *count += more;
            (*count == STREAM_HEADER_BYTES).then_some(Action::Lane(*received))
        }
        Err(error) => read_error(&error),
    }
}

fn handshake(
    mut socket: &TcpStream,
    listener: &mut ListenerHandshake,
    outgoing: &mut Outgoing,
    now: Instant,
) -> Option<Action> {
    let mut bytes = [0; 4096];
    let step = match socket.read(&mut bytes) {
        Ok(0) => return Some(Action::Truncated),
        Ok(count) => listener.take(&bytes[..count], now, &mut outgoing.bytes),
        Err(error) => {
            if outgoing.flush(socket).is_err() {
                return Some(Action::Truncated);
            }
            return read_error(&error);
        }
    };
    match step {
        HandshakeStep::More => None,
        HandshakeStep::Open(opened) => Some(Action::Open(opened)),
        HandshakeStep::Refused(refusal) => Some(Action::Refused(refusal)),
    }
}

fn drain(mut socket: &TcpStream, received: &mut usize, outgoing: &mut Outgoing) -> Option<Action> {
    if outgoing.flush(socket).is_err() {
        return Some(Action::Gone);
    }
    if outgoing.is_empty() {
        let _ = socket.shutdown(Shutdown::Write);
    }
    match socket.read(&mut [0; 4096]) {
        Ok(0) => Some(Action::Gone),
        Ok(count) => {
            *received += count;
            (*received > MAX_RECEIVED).then_some(Action::Gone)
        }
        Err(error) => match read_error(&error) {
            Some(Action::Truncated) => Some(Action::Gone),
            next => next,
        },
    }
}

/// Handles a read error: nothing to read for now, or the connection is broken.
fn read_error(error: &std::io::Error) -> Option<Action> {
    match error.kind() {
        ErrorKind::WouldBlock => Some(Action::Wait),
        ErrorKind::Interrupted => None,
        _ => Some(Action::Truncated),
    }
}

/// Why an unfinished handshake is given up.
pub(super) fn slow() -> HandshakeRefusal {
    HandshakeRefusal::new(
        Reason::Slow,
        "handshake timed out: check that the network is not overloaded",
    )
}

/// Why the oldest of too many handshakes is given up.
pub(super) fn too_many() -> HandshakeRefusal {
    HandshakeRefusal::new(
        Reason::TooMany,
        "too many unfinished handshakes at this listener: connect again",
    )
}

/// The magic of a stream of a TCP lane, see `tcp/stream_header.rs`.
const LANE_MAGIC: &[u8; 4] = b"WLT1";
const STREAM_HEADER_BYTES: usize = 21;
/// An initiator that sends more than this after a refusal does not read it.
const MAX_RECEIVED: usize = 1 << 20;
