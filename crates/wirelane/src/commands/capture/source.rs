//! Where packets come from.

use std::time::Duration;

use doctor::capture::{Method, Packet};

use super::program::Program;
use super::socket::Socket;
use crate::output::Failure;

/// An open source of packets.
pub(super) enum Feed {
    Socket(Socket),
    Program(Program),
}

impl Feed {
    pub(super) fn open(way: &Method) -> Result<Feed, Failure> {
        let failed = |on: &str, error| Failure::failed(format!("capture on {on}: {error}"));
        match way {
            Method::NetDevice { netdev, .. } => {
                Socket::open(netdev).map(Feed::Socket).map_err(|error| failed(netdev, error))
            }
            Method::Program { program, arguments } => {
                let started = Program::start(program, arguments);
                started.map(Feed::Program).map_err(|error| failed(program, error))
            }
        }
    }

    /// Packets that come within this time; `None` when there will be no more.
    pub(super) fn next(&mut self, wait: Duration) -> Result<Option<Vec<Packet>>, Failure> {
        let packets = match self {
            Feed::Socket(socket) => socket.next(wait).map(Some),
            Feed::Program(program) => program.next(wait),
        };
        packets.map_err(|error| Failure::failed(format!("capture: read packets: {error}")))
    }

    /// What packets begin with, once it is known.
    pub(super) fn link_type(&self) -> Option<u32> {
        match self {
            Feed::Socket(_) => Some(ETHERNET),
            Feed::Program(program) => program.header().map(|header| header.link_type),
        }
    }

    /// Ends it; says how many packets were lost, where that is known.
    pub(super) fn end(self, by_itself: bool) -> Result<Option<u64>, Failure> {
        match self {
            Feed::Socket(socket) => Ok(socket.dropped()),
            Feed::Program(program) => program.end(by_itself).map(|()| None),
        }
    }
}

const ETHERNET: u32 = 1;
