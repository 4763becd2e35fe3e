//! Sources of packets.

use std::time::Duration;

use doctor::capture::{Method, Packet};

use super::program::Program;
use super::socket::Socket;
use crate::output::Failure;

/// An open source of packets.
pub(super) enum PacketSource {
    Socket(Socket),
    Program(Program),
}

impl PacketSource {
    pub(super) fn open(method: &Method) -> Result<PacketSource, Failure> {
        let failed = |on: &str, error| Failure::failed(format!("capture on {on}: {error}"));
        match method {
            Method::NetDevice { netdev, .. } => Socket::open(netdev)
                .map(PacketSource::Socket)
                .map_err(|error| failed(netdev, error)),
            Method::Program { program, arguments } => {
                let started = Program::start(program, arguments);
                started.map(PacketSource::Program).map_err(|error| failed(program, error))
            }
        }
    }

    /// Packets that arrive within this time; `None` at the end.
    pub(super) fn next(&mut self, wait: Duration) -> Result<Option<Vec<Packet>>, Failure> {
        let packets = match self {
            PacketSource::Socket(socket) => socket.next(wait).map(Some),
            PacketSource::Program(program) => program.next(wait),
        };
        packets.map_err(|error| Failure::failed(format!("capture: read packets: {error}")))
    }

    /// The link type of the packets, once it is known.
    pub(super) fn link_type(&self) -> Option<u32> {
        match self {
            PacketSource::Socket(_) => Some(ETHERNET),
            PacketSource::Program(program) => program.header().map(|header| header.link_type),
        }
    }

    /// Ends it; returns the number of lost packets, if known.
    pub(super) fn end(self, by_itself: bool) -> Result<Option<u64>, Failure> {
        match self {
            PacketSource::Socket(socket) => Ok(socket.dropped()),
            PacketSource::Program(program) => program.end(by_itself).map(|()| None),
        }
    }
}

const ETHERNET: u32 = 1;
