//! The handshake of an encrypted stream: Noise, keyed by the lane secrets in the offers.
//!
//! After the stream header each end sends one message, and the dialling end an empty record, which proves that it
//! is not a replay. Without both secrets nothing can be read or sent, and secrets that
//! leak later do not reveal what was sent.

use std::io;

use snow::{HandshakeState, TransportState};

use super::lane_parameters::LaneParameters;
use crate::setup::Side;

/// Starts the handshake of a stream.
pub(super) fn start(
    lane_parameters: &LaneParameters,
    stream: u8,
    side: Side,
) -> io::Result<HandshakeState> {
    crate::noise::start_handshake(
        &lane_parameters.key(),
        &lane_parameters.stream_header(stream),
        side,
    )
    .map_err(io::Error::other)
}

/// Our message.
pub(super) fn write(noise: &mut HandshakeState) -> io::Result<[u8; MESSAGE_BYTES]> {
    let mut message = [0; MESSAGE_BYTES];
    noise.write_message(&[], &mut message).map_err(io::Error::other)?;
    Ok(message)
}

/// Checks the peer's message, which only an end with the secrets can create.
pub(super) fn read(noise: &mut HandshakeState, message: &[u8]) -> io::Result<()> {
    noise.read_message(message, &mut []).map(drop).map_err(|_| unknown_peer())
}

/// The empty record that proves that our message is no replay.
pub(super) fn confirm(noise: &mut TransportState) -> io::Result<[u8; EMPTY_RECORD_BYTES]> {
    let mut record = [0; EMPTY_RECORD_BYTES];
    record[..LENGTH_BYTES].copy_from_slice(&(TAG_BYTES as u16).to_le_bytes());
    noise.write_message(&[], &mut record[LENGTH_BYTES..]).map_err(io::Error::other)?;
    Ok(record)
}

/// Whether it is the peer's valid empty record.
pub(super) fn is_confirmed(noise: &mut TransportState, record: &[u8]) -> bool {
    record[..LENGTH_BYTES] == (TAG_BYTES as u16).to_le_bytes()
        && noise.read_message(&record[LENGTH_BYTES..], &mut []).is_ok()
}

pub(super) fn unknown_peer() -> io::Error {
    io::Error::other("another process answered")
}

/// A key and a tag.
pub(super) const MESSAGE_BYTES: usize = 32 + TAG_BYTES;
/// The overhead of a record: a length before its bytes, and a tag after them.
pub(super) const LENGTH_BYTES: usize = 2;
pub(super) const TAG_BYTES: usize = 16;
pub(super) const EMPTY_RECORD_BYTES: usize = LENGTH_BYTES + TAG_BYTES;
