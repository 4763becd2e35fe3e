//! Initiators that close early, are slow, replay others or send invalid data.

use super::*;
use crate::session::answer::Answer;
use crate::session::listener_handshake::{
    HandshakeContext, HandshakeRefusal, HandshakeStep, ListenerHandshake,
};
use crate::session::preface::Preface;

#[test]
fn a_handshake_cut_at_any_byte_is_truncated() {
    for credentials in [Credentials::None, with_key()] {
        let listener = open(lenient());
        let mut whole = RawInitiator::new(&listener, &credentials);
        whole.shake_hands(usize::MAX).expect("in");
        let length = whole.bytes.len();
        for cut in 0..length {
            let mut raw = RawInitiator::new(&listener, &credentials);
            assert!(raw.shake_hands(cut).is_none(), "{cut} of {length}");
            drop(raw);
            let expected = [("truncated", cut as u64 + 1)];
            wait_for("a cut handshake", || refusals(&listener) == expected);
        }
        assert_eq!(listener.counts().accepted(), 1);
        wait_for("an empty listener", || listener.counts().half_open() == 0);
    }
}

#[test]
fn a_complete_handshake_followed_by_a_close_is_a_session() {
    let listener = open(lenient());
    let mut raw = RawInitiator::new(&listener, &Credentials::None);
    raw.shake_hands(usize::MAX).expect("in");
    // All that an initiator sends, without waiting for answers.
    let mut socket = connect_raw(&listener);
    socket.write_all(&raw.bytes).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    wait_for("the session", || listener.counts().accepted() == 2);
    assert_eq!(refusals(&listener), []);
}

#[test]
fn slow_initiators_are_refused() {
    let listener =
        open(ListenerConfig { handshake_timeout: Duration::from_millis(50), ..lenient() });
    // Nothing; one byte; the magic and one byte; the start of a lane's stream header; a preface.
    let starts = [&b""[..], b"W", b"WLC1\x01", b"WLT1\x00", &Preface::Plain.to_bytes()];
    let mut sockets = starts.map(|start| {
        let mut socket = connect_raw(&listener);
        // On a slow machine the time limit may have passed.
        let _ = socket.write_all(start);
        socket
    });
    wait_for("all to be late", || refusals(&listener) == [("slow", 5)]);
    for socket in &mut sockets {
        // Reset or closed.
        let _ = socket.read_to_end(&mut Vec::new());
    }
    assert_eq!((listener.counts().accepted(), listener.counts().alive()), (0, 0));
}

#[test]
fn an_initiator_given_up_gets_the_reason_at_any_stage() {
    let no = HandshakeRefusal::new(Reason::Slow, "it took too long");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    for credentials in [Credentials::None, with_key()] {
        // Before and after its preface was received.
        for late in [false, true] {
            let mut listener =
                ListenerHandshake::new(&HandshakeContext::new(lenient()).unwrap(), address);
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            let mut initiator = InitiatorHandshake::new(&credentials, b"", &mut sent).unwrap();
            if late {
                let step = listener.take(&sent, Instant::now(), &mut received);
                assert!(matches!(step, HandshakeStep::More));
            }
            listener.refuse(&no, &mut received);
            let error = initiator.take(&received, &mut sent).map(drop).unwrap_err();
            assert!(error.why.contains("(slow): it took too long"), "{error:?}");
        }
    }
}

#[test]
fn a_replayed_first_message_is_refused() {
    let listener = open(config());
    let mut raw = RawInitiator::new(&listener, &with_key());
    let first = raw.bytes.len();
    raw.shake_hands(usize::MAX).expect("in");
    for replayed in [&raw.bytes[..first], &raw.bytes] {
        let answer = answer(&listener, replayed);
        let (answer, _) = Answer::parse(&answer).unwrap().unwrap();
        assert_eq!(answer.verdict, Reason::Replayed.code());
        assert!(String::from_utf8(answer.body).unwrap().contains("recorded"));
    }
    assert_eq!(refusals(&listener), [("replayed", 2)]);
    assert_eq!(listener.counts().accepted(), 1);
}

#[test]
fn a_replayed_handshake_fails_later_at_another_listener() {
    let first = open(config());
    let mut raw = RawInitiator::new(&first, &with_key());
    raw.shake_hands(usize::MAX).expect("in");
    // Another process with the same key, as after a restart.
    let second = open(config());
    let received = answer(&second, &raw.bytes);
    let (answer, _) = Answer::parse(&received).unwrap().unwrap();
    assert_eq!(answer.verdict, 0, "the first message is accepted");
    assert_eq!(refusals(&second), [("wrong_key", 1)]);
    assert_eq!(second.counts().accepted(), 0);
}

#[test]
fn long_fields_and_invalid_bytes_are_refused_immediately() {
    let listener = open(lenient());
    let plain = |at: usize, to: &[u8]| {
        let mut preface = Preface::Plain.to_bytes().to_vec();
        preface[at..at + to.len()].copy_from_slice(to);
        preface
    };
    let cases: [(Vec<u8>, Reason); 6] = [
        (plain(23, &[1, 0]), Reason::Oversized),
        (plain(6, &[1]), Reason::ProtocolError),
        (plain(6, &[9]), Reason::ProtocolError),
        (plain(7, &[1]), Reason::ProtocolError),
        (plain(4, &[2, 1]), Reason::ProtocolError),
        ([&plain(6, &[1])[..23], &[0xff, 0xff]].concat(), Reason::Oversized),
    ];
    for (preface, reason) in cases {
        let received = answer(&listener, &preface);
        let (answer, length) = Answer::parse(&received).unwrap().unwrap();
        assert_eq!((answer.verdict, length), (reason.code(), received.len()), "{reason:?}");
    }
    // The length of a hello without the hello: no memory is allocated for it.
    let received = answer(&listener, &[&plain(0, b"")[..], &u32::MAX.to_le_bytes()].concat());
    assert!(String::from_utf8_lossy(&received).contains("4294967295 bytes"));
    assert_eq!(refusals(&listener), [("oversized", 3), ("protocol_error", 4)]);
}
