//! Noise handshakes: two ends with a pre-shared key authenticate each other, and agree on session keys with
//! forward secrecy.

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};

use crate::grants::random;
use crate::setup::Side;

/// Starts a handshake: the dialling end sends first. Data that both ends must agree on is passed as
/// prologue.
pub(crate) fn start_handshake(
    key: &[u8; 32],
    prologue: &[u8],
    side: Side,
) -> Result<HandshakeState, snow::Error> {
    let builder = Builder::with_resolver(PATTERN.parse()?, Box::new(System));
    let builder = builder.psk(0, key)?.prologue(prologue)?;
    match side {
        Side::Dial => builder.build_initiator(),
        Side::Accept => builder.build_responder(),
    }
}

/// Snow's default ciphers, and random numbers from the operating system.
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
        for chunk in bytes.chunks_mut(16) {
            let number = random().map_err(|_| snow::Error::Rng)?.to_ne_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
        Ok(())
    }
}

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
