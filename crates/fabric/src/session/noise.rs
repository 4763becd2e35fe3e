//! What sessions use of Noise, and its measures.

use snow::HandshakeState;
use snow::params::HashChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};

use super::key::Secret;
use crate::half::Side;
use crate::noise::begin;

/// The end that speaks first.
pub(super) fn initiator(secret: &Secret, prologue: &[u8]) -> Result<HandshakeState, snow::Error> {
    begin(secret.bytes(), prologue, Side::Dial)
}

/// The end that answers.
pub(super) fn responder(secret: &Secret, prologue: &[u8]) -> Result<HandshakeState, snow::Error> {
    begin(secret.bytes(), prologue, Side::Accept)
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

/// An ephemeral public key and the tag of an empty payload.
pub(super) const FIRST: usize = EPHEMERAL + TAG;
pub(super) const EPHEMERAL: usize = 32;
pub(super) const TAG: usize = 16;
/// The longest message of Noise.
pub(super) const MAX_RECORD: usize = 65_535;
