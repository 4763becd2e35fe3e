//! Handshakes that are changed in transit; in memory, to test every bit.

use super::*;
use crate::session::initiator_handshake::HandshakeError;
use crate::session::listener_handshake::{HandshakeContext, HandshakeStep, ListenerHandshake};

/// The results of a handshake at the initiator's end and at the listener's.
struct Outcome {
    initiator: Result<Option<Box<HandshakeResult>>, HandshakeError>,
    listener: Option<Box<HandshakeResult>>,
}

/// A handshake in which the initiator's first bytes and the listener's answer are changed in transit.
fn handshake(
    credentials: &Credentials,
    config: ListenerConfig,
    to_listener: impl Fn(&mut Vec<u8>),
    to_caller: impl Fn(&mut Vec<u8>),
) -> Outcome {
    let (context, now) = (HandshakeContext::new(config).unwrap(), Instant::now());
    let mut listener = ListenerHandshake::new(&context, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let mut initiator = InitiatorHandshake::new(credentials, b"the initiator", &mut sent).unwrap();
    to_listener(&mut sent);
    let mut outcome = Outcome { initiator: Ok(None), listener: None };
    if let HandshakeStep::Open(opened) = listener.take(&sent, now, &mut received) {
        outcome.listener = Some(opened);
    }
    to_caller(&mut received);
    sent.clear();
    outcome.initiator = initiator.take(&received, &mut sent);
    received.clear();
    if let HandshakeStep::Open(opened) = listener.take(&sent, now, &mut received) {
        outcome.listener = Some(opened);
    }
    if matches!(outcome.initiator, Ok(None)) {
        outcome.initiator = initiator.take(&received, &mut Vec::new());
    }
    outcome
}

fn flip(bit: usize) -> impl Fn(&mut Vec<u8>) {
    move |bytes| bytes[bit / 8] ^= 1 << (bit % 8)
}

fn keep(_: &mut Vec<u8>) {}

#[test]
fn an_unchanged_handshake_succeeds() {
    for credentials in [Credentials::None, with_key()] {
        let outcome = handshake(&credentials, lenient(), keep, keep);
        assert!(outcome.initiator.unwrap().is_some() && outcome.listener.is_some());
    }
}

#[test]
fn every_changed_bit_of_the_handshake_is_detected() {
    // The initiator's preface with its first message, and the listener's answer with the second.
    for bit in 0..(25 + 48) * 8 {
        let outcome = handshake(&with_key(), lenient(), flip(bit), keep);
        assert!(outcome.listener.is_none(), "bit {bit} of the first");
        assert!(!matches!(outcome.initiator, Ok(Some(_))), "bit {bit} of the first");
    }
    for bit in 0..(10 + 52) * 8 {
        let outcome = handshake(&with_key(), lenient(), keep, flip(bit));
        assert!(outcome.listener.is_none(), "bit {bit} of the answer");
        assert!(!matches!(outcome.initiator, Ok(Some(_))), "bit {bit} of the answer");
    }
}

#[test]
fn an_initiator_with_a_key_cannot_be_downgraded_to_none() {
    // As if it had called without a key: the listener accepts such initiators.
    let without = |sent: &mut Vec<u8>| {
        sent.truncate(25);
        sent[6] = 0;
        sent[7..].fill(0);
    };
    let outcome = handshake(&with_key(), lenient(), without, keep);
    let error = outcome.initiator.map(drop).unwrap_err();
    assert_eq!(error.kind, crate::ErrorKind::Denied);
    assert!(error.why.contains("the handshake was changed in transit"), "{error:?}");
    assert!(outcome.listener.is_none());
}

#[test]
fn changed_version_offers_are_detected() {
    // A downgrade of an initiator with versions 1 and 2; the listener accepts either offer.
    let outcome = handshake(&with_key(), config(), |sent| sent[5] = 2, keep);
    assert!(outcome.listener.is_none() && outcome.initiator.is_err());
    let outcome = handshake(&Credentials::None, lenient(), |sent| sent[5] = 2, keep);
    assert!(outcome.listener.is_some(), "without a key nothing is protected");
}

#[test]
fn a_listener_without_the_key_is_detected() {
    let other = ListenerConfig::new(|_, _| Ok(Vec::new()));
    let impostor = Key::from_hex("cluster", &"99".repeat(32)).unwrap();
    other.keyring.add(impostor.clone()).unwrap();
    // It replaces the initiator's key by its own.
    let to_listener = move |sent: &mut Vec<u8>| {
        sent.clear();
        InitiatorHandshake::new(&Credentials::Key(impostor.clone()), b"", sent).unwrap();
    };
    let outcome = handshake(&with_key(), other, to_listener, keep);
    assert_eq!(outcome.initiator.map(drop).unwrap_err().kind, crate::ErrorKind::Denied);
}
