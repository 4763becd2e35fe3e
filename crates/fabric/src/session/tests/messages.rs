//! Messages on open sessions, and their end.

use std::io::Write;

use super::*;
use crate::session::{MAX_MESSAGE, SessionErrorKind};

#[test]
fn peers_are_identified_and_exchange_messages() {
    let listener = open(lenient());
    for (credentials, name) in [(Credentials::None, "anonymous"), (with_key(), "cluster")] {
        let (mut initiator, mut accepted) = pair(&listener, &credentials);
        assert_eq!(
            (initiator.hello(), accepted.hello()),
            (&b"the listener"[..], &b"the initiator"[..])
        );
        assert_eq!((initiator.identity(), accepted.identity()), (name, name));
        assert_eq!(initiator.is_encrypted(), name == "cluster");
        assert_eq!(accepted.is_encrypted(), name == "cluster");
        assert_eq!(initiator.peer_address(), listener.address());
        assert_eq!(initiator.local_address(), accepted.peer_address());
        assert_eq!(initiator.peer_address(), accepted.local_address());
        initiator.send(b"ping").unwrap();
        initiator.send(b"ping again").unwrap();
        assert_eq!(next(&mut accepted).unwrap(), b"ping");
        accepted.send(b"pong").unwrap();
        assert_eq!(next(&mut initiator).unwrap(), b"pong");
        assert_eq!(next(&mut accepted).unwrap(), b"ping again");
        assert_eq!(accepted.receive(), Ok(None));
    }
    assert_eq!((listener.counts().accepted(), refusals(&listener)), (2, vec![]));
}

#[test]
fn messages_of_every_length_arrive() {
    let listener = open(lenient());
    for credentials in [Credentials::None, with_key()] {
        let (mut initiator, mut accepted) = pair(&listener, &credentials);
        // Around the length of a record, with and without its overhead.
        let around = 65_510..=65_540;
        for length in [0, 1, 4, 1000].into_iter().chain(around.filter(|l| *l <= MAX_MESSAGE)) {
            let message: Vec<u8> = (0..length).map(|at| (at * 31 + length) as u8).collect();
            initiator.send(&message).unwrap();
            accepted.send(&message).unwrap();
            assert!(receive_while_flushing(&mut accepted, &mut initiator) == message, "{length}");
            assert!(receive_while_flushing(&mut initiator, &mut accepted) == message, "{length}");
        }
        let longest = vec![1; MAX_MESSAGE];
        initiator.send(&longest).unwrap();
        assert!(receive_while_flushing(&mut accepted, &mut initiator) == longest);
    }
}

fn receive_while_flushing(to: &mut Session, from: &mut Session) -> Vec<u8> {
    loop {
        from.flush().unwrap();
        if !from.wants_to_write() {
            return next(to).unwrap();
        }
        if let Some(message) = to.receive().unwrap() {
            return message;
        }
    }
}

#[test]
fn a_message_too_long_is_not_sent() {
    let listener = open(lenient());
    let (mut initiator, mut accepted) = pair(&listener, &Credentials::None);
    let lost = initiator.send(&vec![0; MAX_MESSAGE + 1]).unwrap_err();
    assert_eq!(lost.kind(), SessionErrorKind::Full);
    assert!(lost.to_string().contains("65537 bytes"), "{lost}");
    assert_eq!(initiator.flush().unwrap_err(), lost, "the session stays lost");
    assert_eq!(next(&mut accepted).unwrap_err().kind(), SessionErrorKind::Closed);
}

#[test]
fn a_peer_that_does_not_read_loses_the_session_with_a_reason() {
    let listener = open(lenient());
    let (mut initiator, mut accepted) = pair(&listener, &Credentials::None);
    let message = vec![7; MAX_MESSAGE];
    // Socket buffers may be tens of megabytes.
    let lost = (0..10_000).find_map(|_| initiator.send(&message).err()).expect("a limit");
    assert_eq!(lost.kind(), SessionErrorKind::Full);
    assert!(lost.to_string().contains("does not read"), "{lost}");
    assert!(!initiator.wants_to_write());
    assert_eq!(initiator.receive().unwrap_err(), lost, "the first reason");
    let ended = loop {
        match next(&mut accepted) {
            Ok(message) => assert_eq!(message.len(), MAX_MESSAGE),
            Err(lost) => break lost,
        }
    };
    assert_eq!(ended.kind(), SessionErrorKind::Closed);
}

#[test]
fn messages_sent_before_the_end_arrive() {
    let listener = open(lenient());
    for credentials in [Credentials::None, with_key()] {
        let (mut initiator, mut accepted) = pair(&listener, &credentials);
        initiator.send(b"goodbye").unwrap();
        drop(initiator);
        // Sending fails, and the last message is still received.
        let _ = accepted.send(b"are you there?");
        assert_eq!(next(&mut accepted).unwrap(), b"goodbye");
        let lost = next(&mut accepted).unwrap_err();
        assert_eq!(lost.kind(), SessionErrorKind::Closed);
        assert!(lost.to_string().contains("connection"), "{lost}");
        assert_eq!(next(&mut accepted).unwrap_err(), lost);
        assert_eq!(accepted.send(b"gone").unwrap_err(), lost);
    }
}

#[test]
fn a_truncated_message_is_not_delivered() {
    let listener = open(lenient());
    let mut raw = RawInitiator::new(&listener, &Credentials::None);
    raw.shake_hands(usize::MAX).expect("in");
    let mut accepted = listener.accept(LIMIT).unwrap();
    raw.socket.write_all(&[5, 0, 0, 0, 1, 2]).unwrap();
    drop(raw);
    assert_eq!(next(&mut accepted).unwrap_err().kind(), SessionErrorKind::Closed);
}

#[test]
fn a_length_beyond_the_limit_is_a_protocol_error() {
    let listener = open(lenient());
    let mut raw = RawInitiator::new(&listener, &Credentials::None);
    raw.shake_hands(usize::MAX).expect("in");
    let mut accepted = listener.accept(LIMIT).unwrap();
    raw.socket.write_all(&(MAX_MESSAGE as u32 + 1).to_le_bytes()).unwrap();
    let lost = next(&mut accepted).unwrap_err();
    assert_eq!(lost.kind(), SessionErrorKind::ProtocolError);
    assert!(lost.to_string().contains("65537"), "{lost}");
    assert_eq!(accepted.send(b"more").unwrap_err(), lost);
}

#[test]
fn changed_repeated_and_malformed_records_are_protocol_errors() {
    /// Encodes bytes that the listener must not accept.
    type Encode = fn(&mut HandshakeResult) -> Vec<u8>;
    let cases: [(&str, Encode); 6] = [
        ("changed", |opened| {
            let mut bytes = Vec::new();
            opened.framing.seal(b"pay 10", &mut bytes);
            bytes[8] ^= 1;
            bytes
        }),
        ("repeated", |opened| {
            let mut bytes = Vec::new();
            opened.framing.seal(b"pay 10", &mut bytes);
            [&bytes[..], &bytes].concat()
        }),
        ("empty", |_| [&[16, 0][..], &[1; 16]].concat()),
        ("without a length", |opened| record(opened, &[1, 2, 3])),
        ("too long", |opened| record(opened, &(MAX_MESSAGE as u32 + 1).to_le_bytes())),
        ("beyond its end", |opened| record(opened, &[2, 0, 0, 0, b'a', b'b', b'c'])),
    ];
    let listener = open(config());
    for (name, encode) in cases {
        let mut raw = RawInitiator::new(&listener, &with_key());
        let mut opened = raw.shake_hands(usize::MAX).expect("in");
        let mut accepted = listener.accept(LIMIT).unwrap();
        raw.socket.write_all(&encode(&mut opened)).unwrap();
        if name == "repeated" {
            assert_eq!(next(&mut accepted).unwrap(), b"pay 10");
        }
        assert_eq!(
            next(&mut accepted).unwrap_err().kind(),
            SessionErrorKind::ProtocolError,
            "{name}"
        );
    }
}

fn record(opened: &mut HandshakeResult, content: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    opened.framing.seal_raw(content, &mut record);
    record
}

#[test]
fn sessions_outlive_their_listener() {
    let listener = open(config());
    let (mut initiator, mut accepted) = pair(&listener, &with_key());
    let address = listener.address();
    drop(listener);
    initiator.send(b"still here").unwrap();
    assert_eq!(next(&mut accepted).unwrap(), b"still here");
    TcpStream::connect(address).unwrap_err();
}

#[test]
fn secrets_are_not_printed() {
    let config = config();
    let ticket = config.keyring.issue("worker", LIMIT).unwrap();
    let printed = format!("{config:?} {:?} {:?}", with_key(), Credentials::Ticket(ticket.clone()));
    let listener = open(config);
    let printed = format!("{printed} {listener:?} {:?}", pair(&listener, &with_key()));
    let secret = &ticket.to_bytes()[16..];
    for hidden in [&"c7".repeat(3), "199, 199", &format!("{:?}", &secret[..3])[1..]] {
        assert!(!printed.contains(hidden.trim_end_matches(']')), "{hidden} in {printed}");
    }
}
