//! The Noise handshake of sessions, and its sizes.

use snow::HandshakeState;
use snow::params::HashChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};

use super::key::Secret;
use crate::noise::start_handshake;
use crate::setup::Side;

/// The end that sends first.
pub(super) fn initiator(secret: &Secret, prologue: &[u8]) -> Result<HandshakeState, snow::Error> {
    start_handshake(secret.bytes(), prologue, Side::Dial)
}

/// The end that answers.
pub(super) fn listener(secret: &Secret, prologue: &[u8]) -> Result<HandshakeState, snow::Error> {
    start_handshake(secret.bytes(), prologue, Side::Accept)
}

/// BLAKE2s over a label and a secret.
pub(super) fn digest(label: &[u8], secret: &[u8]) -> [u8; 32] {
    let mut hash = DefaultResolver.resolve_hash(&HashChoice::Blake2s).expect("built with it");
    hash.input(label);
    hash.input(secret);
    let mut digest = [0; 32];
    hash.result(&mut digest);
    digest
}

/// The first message: an ephemeral public key and the tag of an empty payload.
pub(super) const FIRST_MESSAGE_BYTES: usize = EPHEMERAL_BYTES + TAG_BYTES;
pub(super) const EPHEMERAL_BYTES: usize = 32;
pub(super) const TAG_BYTES: usize = 16;
/// The longest Noise message.
pub(super) const MAX_RECORD_BYTES: usize = 65_535;
