//! Handshakes with callers and listeners that say anything, in memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use super::acceptor::AcceptorConfig;
use super::answer::Answer;
use super::connection::Opened;
use super::dial::Credentials;
use super::framing::Framing;
use super::initiator::Initiator;
use super::key::Key;
use super::noise::{FIRST, initiator};
use super::preface::Preface;
use super::responder::{Responder, Rules, Step};
use super::{ANONYMOUS, MAX_MESSAGE};

/// The first byte says who speaks, and in how large pieces; the others are what is said.
pub(crate) fn handshake(bytes: &[u8]) {
    let Some((first, sent)) = bytes.split_first() else { return };
    let pieces = || sent.chunks(usize::from(first >> 2) + 1);
    match first & 3 {
        0 => unknown_peer(pieces()),
        1 => anonymous(pieces()),
        2 => key_holder(pieces()),
        _ => acceptor(pieces()),
    }
}

/// Somebody without the key never gets in.
fn unknown_peer<'b>(pieces: impl Iterator<Item = &'b [u8]>) {
    let mut talk = Exchange::new(true);
    pieces.for_each(|piece| talk.send(piece));
    assert!(talk.opened.is_none(), "without the key nobody gets in");
}

/// Somebody who needs no key, from its hello on.
fn anonymous<'b>(pieces: impl Iterator<Item = &'b [u8]>) {
    let mut talk = Exchange::new(false);
    talk.send(&Preface::Plain.to_bytes());
    pieces.for_each(|piece| talk.send(piece));
    assert!(talk.opened.is_none_or(|opened| opened.identity == ANONYMOUS));
}

/// Somebody with the key, whose records hold anything.
fn key_holder<'b>(pieces: impl Iterator<Item = &'b [u8]>) {
    let (mut talk, key) = (Exchange::new(true), key());
    let preface = Preface::Noise { key: key.id() }.to_bytes();
    let mut noise = initiator(key.secret(), &preface).expect("randomness");
    let mut first = [0; FIRST];
    noise.write_message(&[], &mut first).expect("a first message");
    talk.send(&[&preface[..], &first].concat());
    let answer = Answer::parse(&talk.received).expect("ours").expect("whole").0;
    noise.read_message(&answer.body, &mut [0; 64]).expect("the listener knows the key");
    let mut framing = Framing::new(noise.into_transport_mode().ok(), MAX_MESSAGE);
    for piece in pieces {
        let mut record = Vec::new();
        framing.seal_raw(piece, &mut record);
        talk.send(&record);
    }
    assert!(talk.opened.is_none_or(|opened| opened.identity == key.name()));
}

/// A listener that says anything to callers with and without the key.
fn acceptor<'b>(pieces: impl Iterator<Item = &'b [u8]> + Clone) {
    for credentials in [Credentials::None, Credentials::Key(key())] {
        let mut received = Vec::new();
        let mut initiator =
            Initiator::new(&credentials, b"hello", &mut received).expect("a short hello");
        for piece in pieces.clone() {
            let Ok(opened) = initiator.take(piece, &mut received) else { break };
            assert!(
                opened.is_none() || matches!(credentials, Credentials::None),
                "no listener has it"
            );
        }
        assert!(received.len() < 100, "a preface and a hello");
    }
}

/// A listener with one key, and what it said so far.
struct Exchange {
    responder: Responder,
    received: Vec<u8>,
    refused: bool,
    opened: Option<Box<Opened>>,
}

impl Exchange {
    fn new(require_authentication: bool) -> Self {
        let config = AcceptorConfig::new(|_, hello| Ok(hello.to_vec()));
        config.keyring.add(key()).expect("the only key");
        let rules = Rules::new(AcceptorConfig { require_authentication, ..config });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let responder = Responder::new(&rules.expect("randomness"), address);
        Exchange { responder, received: Vec::new(), refused: false, opened: None }
    }

    fn send(&mut self, bytes: &[u8]) {
        if let Some(opened) = &mut self.opened {
            opened.framing.feed(bytes);
            while let Ok(Some(message)) = opened.framing.next() {
                assert!(message.len() <= MAX_MESSAGE);
            }
            return;
        }
        let before = self.received.len();
        match self.responder.take(bytes, Instant::now(), &mut self.received) {
            Step::More => assert!(!self.refused || self.received.len() == before, "it was said"),
            Step::Open(opened) => self.opened = Some(opened),
            Step::Refused(_) => {
                assert!(!self.refused && self.received.len() > before, "once, with a reason");
                self.refused = true;
            }
        }
    }
}

fn key() -> Key {
    Key::from_hex("fuzz", &"5a".repeat(32)).expect("64 digits")
}
