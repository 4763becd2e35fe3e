//! Noise, as we use it: two ends that share a secret prove it to each other, and agree on keys that
//! nobody can find out later, not even with the secret.

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};

use super::key::Secret;
use crate::grants::random;

/// The end that speaks first. What both ends must have seen alike goes into the prologue.
pub(super) fn initiator(secret: &Secret, prologue: &[u8]) -> Result<HandshakeState, snow::Error> {
    builder(secret, prologue)?.build_initiator()
}

/// The end that answers.
pub(super) fn responder(secret: &Secret, prologue: &[u8]) -> Result<HandshakeState, snow::Error> {
    builder(secret, prologue)?.build_responder()
}

fn builder<'b>(secret: &'b Secret, prologue: &'b [u8]) -> Result<Builder<'b>, snow::Error> {
    let builder = Builder::with_resolver(PATTERN.parse()?, Box::new(System));
    builder.psk(0, secret.bytes())?.prologue(prologue)
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

/// Snow's own ciphers, and randomness of the system.
struct System;

impl CryptoResolver for System {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(System))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

impl Random for System {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        for piece in bytes.chunks_mut(16) {
            let number = random().map_err(|_| snow::Error::Rng)?.to_ne_bytes();
            piece.copy_from_slice(&number[..piece.len()]);
        }
        Ok(())
    }
}

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// An ephemeral public key and the tag of an empty payload.
pub(super) const FIRST: usize = EPHEMERAL + TAG;
pub(super) const EPHEMERAL: usize = 32;
pub(super) const TAG: usize = 16;
/// The longest message of Noise.
pub(super) const MOST_RECORD: usize = 65_535;
