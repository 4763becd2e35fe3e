//! A connection within its handshake.

use std::io::{ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use crate::session::connection::Opened;
use crate::session::outgoing::Outgoing;
use crate::session::preface::MAGIC;
use crate::session::refusal::Reason;
use crate::session::responder::{Rejection, Responder, Rules, Step};

pub(super) struct HalfOpen {
    pub(super) socket: TcpStream,
    address: SocketAddr,
    pub(super) deadline: Instant,
    pub(super) outgoing: Outgoing,
    stage: Stage,
}

enum Stage {
    /// It has not said yet what it speaks.
    Unknown,
    Lane {
        received: [u8; GREETING],
        count: usize,
    },
    Handshake(Responder),
    /// It was refused. What it still says is read and thrown away: closed with bytes unread, the
    /// connection would be reset, and the refusal with it.
    Leaving {
        received: usize,
    },
}

/// What to do with it now.
pub(super) enum Next {
    Wait,
    Open(Box<Opened>),
    Lane([u8; GREETING]),
    Other,
    /// Hears its refusal, then is gone.
    Refused(Rejection),
    /// Hung up before it was through.
    Truncated,
    /// Received its refusal.
    Gone,
}

impl HalfOpen {
    pub(super) fn new(socket: TcpStream, address: SocketAddr, deadline: Instant) -> Self {
        let outgoing = Outgoing::default();
        HalfOpen { socket, address, deadline, outgoing, stage: Stage::Unknown }
    }

    /// Reads and writes until it would wait. Nothing is left unread: the next event tells only of more.
    pub(super) fn go_on(&mut self, rules: &Arc<Rules>, hung_up: bool, now: Instant) -> Next {
        loop {
            let next = match &mut self.stage {
                Stage::Unknown => self.look(rules, hung_up),
                Stage::Lane { received, count } => greet(&self.socket, received, count),
                Stage::Handshake(responder) => {
                    handshake(&self.socket, responder, &mut self.outgoing, now)
                }
                Stage::Leaving { received } => leave(&self.socket, received, &mut self.outgoing),
            };
            match next {
                Some(Next::Refused(no)) => {
                    self.stage = Stage::Leaving { received: 0 };
                    return Next::Refused(no);
                }
                Some(next) => return next,
                None => {}
            }
        }
    }

    /// Says no to one that takes too long or too much room, if it speaks our protocol. Says whether it was
    /// still to be refused.
    pub(super) fn give_up(&mut self, no: &Rejection) -> bool {
        if let Stage::Handshake(responder) = &mut self.stage {
            responder.refuse(no, &mut self.outgoing.bytes);
            let _ = self.outgoing.flush(&self.socket);
        }
        !matches!(self.stage, Stage::Leaving { .. })
    }

    /// Looks at the first bytes without taking them: they may be for somebody else.
    fn look(&mut self, rules: &Arc<Rules>, hung_up: bool) -> Option<Next> {
        let mut first = [0; 4];
        let count = match self.socket.peek(&mut first) {
            Ok(0) => return Some(Next::Truncated),
            Ok(count) => count,
            Err(error) => return stopped(&error),
        };
        let received = &first[..count];
        match count {
            4 if first == *MAGIC => {
                self.stage = Stage::Handshake(Responder::new(rules, self.address));
                None
            }
            4 if first == *LANE_MAGIC => {
                self.stage = Stage::Lane { received: [0; GREETING], count: 0 };
                None
            }
            ..4 if hung_up => Some(Next::Truncated),
            ..4 if MAGIC.starts_with(received) || LANE_MAGIC.starts_with(received) => {
                Some(Next::Wait)
            }
            _ => Some(Next::Other),
        }
    }
}

/// Reads the greeting of a lane's stream and not a byte more: the rest is the lane's.
fn greet(mut socket: &TcpStream, received: &mut [u8; GREETING], count: &mut usize) -> Option<Next> {
    match socket.read(&mut received[*count..]) {
        Ok(0) => Some(Next::Truncated),
        Ok(more) => {
            *count += more;
            (*count == GREETING).then_some(Next::Lane(*received))
        }
        Err(error) => stopped(&error),
    }
}

fn handshake(
    mut socket: &TcpStream,
    responder: &mut Responder,
    outgoing: &mut Outgoing,
    now: Instant,
) -> Option<Next> {
    let mut bytes = [0; 4096];
    let step = match socket.read(&mut bytes) {
        Ok(0) => return Some(Next::Truncated),
        Ok(count) => responder.take(&bytes[..count], now, &mut outgoing.bytes),
        Err(error) => {
            if outgoing.flush(socket).is_err() {
                return Some(Next::Truncated);
            }
            return stopped(&error);
        }
    };
    match step {
        Step::More => None,
        Step::Open(opened) => Some(Next::Open(opened)),
        Step::Refused(no) => Some(Next::Refused(no)),
    }
}

fn leave(mut socket: &TcpStream, received: &mut usize, outgoing: &mut Outgoing) -> Option<Next> {
    if outgoing.flush(socket).is_err() {
        return Some(Next::Gone);
    }
    if outgoing.is_empty() {
        let _ = socket.shutdown(Shutdown::Write);
    }
    match socket.read(&mut [0; 4096]) {
        Ok(0) => Some(Next::Gone),
        Ok(count) => {
            *received += count;
            (*received > MAX_RECEIVED).then_some(Next::Gone)
        }
        Err(error) => match stopped(&error) {
            Some(Next::Truncated) => Some(Next::Gone),
            next => next,
        },
    }
}

/// Nothing to read: for now, or for ever.
fn stopped(error: &std::io::Error) -> Option<Next> {
    match error.kind() {
        ErrorKind::WouldBlock => Some(Next::Wait),
        ErrorKind::Interrupted => None,
        _ => Some(Next::Truncated),
    }
}

/// Why an unfinished handshake is given up.
pub(super) fn slow() -> Rejection {
    Rejection::new(
        Reason::Slow,
        "the handshake took too long: see that the network is not overloaded",
    )
}

/// Why the oldest of too many handshakes is given up.
pub(super) fn too_many() -> Rejection {
    Rejection::new(Reason::TooMany, "too many callers are at this listener: dial again")
}

/// What a stream of a TCP lane begins with, see `tcp/hello.rs`.
const LANE_MAGIC: &[u8; 4] = b"WLT1";
const GREETING: usize = 21;
/// Who sends more after a refusal does not read it.
const MAX_RECEIVED: usize = 1 << 20;
