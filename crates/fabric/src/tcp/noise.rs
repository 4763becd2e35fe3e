//! How two ends of an encrypted stream meet: Noise, keyed by the tokens that only their offers told.
//!
//! After the hello each says one message, and the dialling end one empty record more: until then it may be
//! somebody who only repeats what the peer once said. Nobody without both tokens learns or says anything,
//! and who gets hold of them later cannot read what was sent.

use std::io;

use snow::{HandshakeState, TransportState};

use super::terms::Terms;
use crate::setup::Side;

/// Begins to meet on a stream, as the end of this side.
pub(super) fn begin(terms: &Terms, stream: u8, side: Side) -> io::Result<HandshakeState> {
    crate::noise::begin(&terms.key(), &terms.hello(stream), side).map_err(io::Error::other)
}

/// Our message.
pub(super) fn write(noise: &mut HandshakeState) -> io::Result<[u8; MESSAGE]> {
    let mut message = [0; MESSAGE];
    noise.write_message(&[], &mut message).map_err(io::Error::other)?;
    Ok(message)
}

/// The peer's message. One who does not know the tokens cannot have said it.
pub(super) fn read(noise: &mut HandshakeState, message: &[u8]) -> io::Result<()> {
    noise.read_message(message, &mut []).map(drop).map_err(|_| unknown_peer())
}

/// Says that we are here, and not only our message.
pub(super) fn confirm(noise: &mut TransportState) -> io::Result<[u8; RECORD_OF_NOTHING]> {
    let mut record = [0; RECORD_OF_NOTHING];
    record[..LENGTH].copy_from_slice(&(TAG as u16).to_le_bytes());
    noise.write_message(&[], &mut record[LENGTH..]).map_err(io::Error::other)?;
    Ok(record)
}

/// Whether the peer said just that.
pub(super) fn is_confirmed(noise: &mut TransportState, record: &[u8]) -> bool {
    record[..LENGTH] == (TAG as u16).to_le_bytes()
        && noise.read_message(&record[LENGTH..], &mut []).is_ok()
}

pub(super) fn unknown_peer() -> io::Error {
    io::Error::other("somebody else answers there")
}

/// A key and a tag.
pub(super) const MESSAGE: usize = 32 + TAG;
/// What a record has beside its bytes: a length before them, and a tag behind.
pub(super) const LENGTH: usize = 2;
pub(super) const TAG: usize = 16;
pub(super) const RECORD_OF_NOTHING: usize = LENGTH + TAG;
