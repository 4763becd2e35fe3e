//! Handshakes with initiators and listeners that send arbitrary bytes, in memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use super::answer::Answer;
use super::connect::Credentials;
use super::connection::HandshakeResult;
use super::framing::Framing;
use super::initiator_handshake::InitiatorHandshake;
use super::key::Key;
use super::listener::ListenerConfig;
use super::listener_handshake::{HandshakeContext, HandshakeStep, ListenerHandshake};
use super::noise::{FIRST_MESSAGE_BYTES, initiator};
use super::preface::Preface;
use super::{ANONYMOUS, MAX_MESSAGE};

/// The first byte selects the sender and the size of chunks; the others are what it sends.
pub(crate) fn handshake(bytes: &[u8]) {
    let Some((first, sent)) = bytes.split_first() else { return };
    let chunks = || sent.chunks(usize::from(first >> 2) + 1);
    match first & 3 {
        0 => unknown_peer(chunks()),
        1 => anonymous(chunks()),
        2 => key_holder(chunks()),
        _ => listener(chunks()),
    }
}

/// An initiator without the key is never accepted.
fn unknown_peer<'b>(chunks: impl Iterator<Item = &'b [u8]>) {
    let mut exchange = Exchange::new(true);
    chunks.for_each(|chunk| exchange.send(chunk));
    assert!(exchange.opened.is_none(), "accepted without the key");
}

/// An initiator that needs no key; arbitrary bytes start with its hello.
fn anonymous<'b>(chunks: impl Iterator<Item = &'b [u8]>) {
    let mut exchange = Exchange::new(false);
    exchange.send(&Preface::Plain.to_bytes());
    chunks.for_each(|chunk| exchange.send(chunk));
    assert!(exchange.opened.is_none_or(|opened| opened.identity == ANONYMOUS));
}

/// An initiator with the key, whose records contain arbitrary bytes.
fn key_holder<'b>(chunks: impl Iterator<Item = &'b [u8]>) {
    let (mut exchange, key) = (Exchange::new(true), key());
    let preface = Preface::Noise { key: key.id() }.to_bytes();
    let mut noise = initiator(key.secret(), &preface).expect("randomness");
    let mut first = [0; FIRST_MESSAGE_BYTES];
    noise.write_message(&[], &mut first).expect("a first message");
    exchange.send(&[&preface[..], &first].concat());
    let answer = Answer::parse(&exchange.received).expect("ours").expect("whole").0;
    noise.read_message(&answer.body, &mut [0; 64]).expect("the listener knows the key");
    let mut framing = Framing::new(noise.into_transport_mode().ok(), MAX_MESSAGE);
    for chunk in chunks {
        let mut record = Vec::new();
        framing.seal_raw(chunk, &mut record);
        exchange.send(&record);
    }
    assert!(exchange.opened.is_none_or(|opened| opened.identity == key.name()));
}

/// A listener that sends arbitrary bytes to initiators with and without the key.
fn listener<'b>(chunks: impl Iterator<Item = &'b [u8]> + Clone) {
    for credentials in [Credentials::None, Credentials::Key(key())] {
        let mut received = Vec::new();
        let mut initiator =
            InitiatorHandshake::new(&credentials, b"hello", &mut received).expect("a short hello");
        for chunk in chunks.clone() {
            let Ok(opened) = initiator.take(chunk, &mut received) else { break };
            assert!(
                opened.is_none() || matches!(credentials, Credentials::None),
                "the listener does not have the key"
            );
        }
        assert!(received.len() < 100, "a preface and a hello");
    }
}

/// A listener with one key, and the bytes it has sent so far.
struct Exchange {
    listener: ListenerHandshake,
    received: Vec<u8>,
    refused: bool,
    opened: Option<Box<HandshakeResult>>,
}

impl Exchange {
    fn new(require_authentication: bool) -> Self {
        let config = ListenerConfig::new(|_, hello| Ok(hello.to_vec()));
        config.keyring.add(key()).expect("the only key");
        let context = HandshakeContext::new(ListenerConfig { require_authentication, ..config });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let listener = ListenerHandshake::new(&context.expect("randomness"), address);
        Exchange { listener, received: Vec::new(), refused: false, opened: None }
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
        match self.listener.take(bytes, Instant::now(), &mut self.received) {
            HandshakeStep::More => {
                assert!(!self.refused || self.received.len() == before, "sent after a refusal")
            }
            HandshakeStep::Open(opened) => self.opened = Some(opened),
            HandshakeStep::Refused(_) => {
                assert!(
                    !self.refused && self.received.len() > before,
                    "refused once, with a reason"
                );
                self.refused = true;
            }
        }
    }
}

fn key() -> Key {
    Key::from_hex("fuzz", &"5a".repeat(32)).expect("64 digits")
}
