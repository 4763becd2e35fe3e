//! Somebody between the two changes what they say; in memory, to try every bit.

use super::*;
use crate::session::initiator::Trouble;
use crate::session::responder::{Responder, Rules, Step};

/// How a handshake ended at the caller's end and at the listener's.
struct Ended {
    caller: Result<Option<Box<Opened>>, Trouble>,
    responder: Option<Box<Opened>>,
}

/// A handshake where the caller's first words and the listener's answer pass through somebody's hands.
fn meet(
    credentials: &Credentials,
    config: AcceptorConfig,
    to_acceptor: impl Fn(&mut Vec<u8>),
    to_caller: impl Fn(&mut Vec<u8>),
) -> Ended {
    let (rules, now) = (Rules::new(config).unwrap(), Instant::now());
    let mut responder = Responder::new(&rules, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let mut initiator = Initiator::new(credentials, b"the caller", &mut sent).unwrap();
    to_acceptor(&mut sent);
    let mut ended = Ended { caller: Ok(None), responder: None };
    if let Step::Open(opened) = responder.take(&sent, now, &mut received) {
        ended.responder = Some(opened);
    }
    to_caller(&mut received);
    sent.clear();
    ended.caller = initiator.take(&received, &mut sent);
    received.clear();
    if let Step::Open(opened) = responder.take(&sent, now, &mut received) {
        ended.responder = Some(opened);
    }
    if matches!(ended.caller, Ok(None)) {
        ended.caller = initiator.take(&received, &mut Vec::new());
    }
    ended
}

fn flip(bit: usize) -> impl Fn(&mut Vec<u8>) {
    move |bytes| bytes[bit / 8] ^= 1 << (bit % 8)
}

fn keep(_: &mut Vec<u8>) {}

#[test]
fn untouched_both_get_through() {
    for credentials in [Credentials::None, with_key()] {
        let ended = meet(&credentials, lenient(), keep, keep);
        assert!(ended.caller.unwrap().is_some() && ended.responder.is_some());
    }
}

#[test]
fn no_bit_of_the_handshake_can_be_changed() {
    // The caller's preface with its first message, and the listener's answer with the second.
    for bit in 0..(25 + 48) * 8 {
        let ended = meet(&with_key(), lenient(), flip(bit), keep);
        assert!(ended.responder.is_none(), "bit {bit} of the first");
        assert!(!matches!(ended.caller, Ok(Some(_))), "bit {bit} of the first");
    }
    for bit in 0..(10 + 52) * 8 {
        let ended = meet(&with_key(), lenient(), keep, flip(bit));
        assert!(ended.responder.is_none(), "bit {bit} of the answer");
        assert!(!matches!(ended.caller, Ok(Some(_))), "bit {bit} of the answer");
    }
}

#[test]
fn a_caller_with_a_key_is_not_talked_down_to_none() {
    // As if it had called without: the listener takes such callers, and answers so.
    let without = |sent: &mut Vec<u8>| {
        sent.truncate(25);
        sent[6] = 0;
        sent[7..].fill(0);
    };
    let ended = meet(&with_key(), lenient(), without, keep);
    let trouble = ended.caller.map(drop).unwrap_err();
    assert_eq!(trouble.kind, crate::Kind::Denied);
    assert!(trouble.why.contains("somebody between us changed the handshake"), "{trouble:?}");
    assert!(ended.responder.is_none());
}

#[test]
fn nobody_between_changes_which_versions_are_offered() {
    // As a caller of versions 1 and 2 would be talked down; the listener takes either offer by itself.
    let ended = meet(&with_key(), config(), |sent| sent[5] = 2, keep);
    assert!(ended.responder.is_none() && ended.caller.is_err());
    let ended = meet(&Credentials::None, lenient(), |sent| sent[5] = 2, keep);
    assert!(ended.responder.is_some(), "without a key nothing is protected");
}

#[test]
fn an_acceptor_without_the_key_cannot_pretend() {
    let other = AcceptorConfig::new(|_, _| Ok(Vec::new()));
    let impostor = Key::from_hex("cluster", &"99".repeat(32)).unwrap();
    other.keyring.add(impostor.clone()).unwrap();
    // It lets the caller through to its own key.
    let to_acceptor = move |sent: &mut Vec<u8>| {
        sent.clear();
        Initiator::new(&Credentials::Key(impostor.clone()), b"", sent).unwrap();
    };
    let ended = meet(&with_key(), other, to_acceptor, keep);
    assert_eq!(ended.caller.map(drop).unwrap_err().kind, crate::Kind::Denied);
}
