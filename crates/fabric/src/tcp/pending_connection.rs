//! A connection that is not authenticated yet.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use snow::TransportState;

use super::lane_parameters::{AuthenticatedSocket, LaneParameters};
use super::noise;
use super::stream_header::STREAM_HEADER_BYTES;
use crate::setup::Side;

pub(super) struct PendingConnection {
    socket: TcpStream,
    received: [u8; MAX_MESSAGE_BYTES],
    /// The number of bytes received of the next message.
    count: usize,
    stage: Stage,
}

/// The next message.
enum Stage {
    Header,
    /// The proof, for this stream.
    Proof(u8),
    /// The confirmation that it is no replay.
    Confirmation(u8, Box<TransportState>),
}

/// The result of receiving.
pub(super) enum ReceiveResult {
    Nothing,
    UnknownPeer,
    /// The peer, with this stream.
    Peer(u8),
}

impl PendingConnection {
    pub(super) fn new(socket: TcpStream) -> Option<Self> {
        socket.set_nonblocking(true).ok()?;
        Some(PendingConnection {
            socket,
            received: [0; MAX_MESSAGE_BYTES],
            count: 0,
            stage: Stage::Header,
        })
    }

    /// A connection whose stream header was read by the shared listener.
    pub(super) fn with_header(
        socket: TcpStream,
        header: &[u8; STREAM_HEADER_BYTES],
    ) -> Option<Self> {
        let mut connection = Self::new(socket)?;
        connection.received[..STREAM_HEADER_BYTES].copy_from_slice(header);
        connection.count = STREAM_HEADER_BYTES;
        Some(connection)
    }

    /// Receives available bytes, but none after the handshake.
    pub(super) fn receive(&mut self, lane_parameters: &LaneParameters) -> ReceiveResult {
        loop {
            let wanted = match self.stage {
                Stage::Header => STREAM_HEADER_BYTES,
                Stage::Proof(_) if lane_parameters.encrypted => noise::MESSAGE_BYTES,
                Stage::Proof(_) => SECRET_BYTES,
                Stage::Confirmation(..) => noise::EMPTY_RECORD_BYTES,
            };
            while self.count < wanted {
                match self.socket.read(&mut self.received[self.count..wanted]) {
                    Ok(0) => return ReceiveResult::UnknownPeer,
                    Ok(count) => self.count += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return ReceiveResult::Nothing;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return ReceiveResult::UnknownPeer,
                }
            }
            self.count = 0;
            match self.process(wanted, lane_parameters) {
                ReceiveResult::Nothing => {}
                received => return received,
            }
        }
    }

    /// Processes a complete message and moves to the next stage.
    fn process(&mut self, count: usize, lane_parameters: &LaneParameters) -> ReceiveResult {
        let received = &self.received[..count];
        match &mut self.stage {
            Stage::Header => match (0..lane_parameters.streams)
                .find(|at| lane_parameters.stream_header(*at) == received)
            {
                Some(stream) => self.stage = Stage::Proof(stream),
                None => return ReceiveResult::UnknownPeer,
            },
            Stage::Proof(stream) if lane_parameters.encrypted => {
                let stream = *stream;
                match self.answer(stream, lane_parameters) {
                    Ok(noise) => self.stage = Stage::Confirmation(stream, Box::new(noise)),
                    Err(_) => return ReceiveResult::UnknownPeer,
                }
            }
            Stage::Proof(stream) if lane_parameters.accept_secret.to_le_bytes() == received => {
                return ReceiveResult::Peer(*stream);
            }
            Stage::Proof(_) => return ReceiveResult::UnknownPeer,
            Stage::Confirmation(stream, noise) => {
                let confirmed = noise::is_confirmed(noise, received);
                return if confirmed {
                    ReceiveResult::Peer(*stream)
                } else {
                    ReceiveResult::UnknownPeer
                };
            }
        }
        ReceiveResult::Nothing
    }

    /// Answers a peer that has the secrets; others get no answer.
    fn answer(
        &mut self,
        stream: u8,
        lane_parameters: &LaneParameters,
    ) -> io::Result<TransportState> {
        let mut noise = noise::start(lane_parameters, stream, Side::Accept)?;
        noise::read(&mut noise, &self.received[..noise::MESSAGE_BYTES])?;
        // The send buffer of a new connection is large enough, so a partial write is an error.
        self.socket.write_all(&noise::write(&mut noise)?)?;
        noise.into_transport_mode().map_err(io::Error::other)
    }

    /// The progress of its handshake.
    pub(super) fn progress(&self) -> u8 {
        match self.stage {
            Stage::Header => 0,
            Stage::Proof(_) => 1,
            Stage::Confirmation(..) => 2,
        }
    }

    /// Completes the handshake with the peer: sends our secret, if the lane is not encrypted.
    pub(super) fn finish(
        mut self,
        lane_parameters: &LaneParameters,
    ) -> Option<AuthenticatedSocket> {
        let noise = match self.stage {
            Stage::Confirmation(_, noise) => Some(*noise),
            _ => {
                self.socket.write_all(&lane_parameters.dial_secret.to_le_bytes()).ok()?;
                None
            }
        };
        Some(AuthenticatedSocket { socket: self.socket, noise })
    }
}

impl AsFd for PendingConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

const SECRET_BYTES: usize = 16;
/// The longest message of the handshake.
const MAX_MESSAGE_BYTES: usize = noise::MESSAGE_BYTES;
