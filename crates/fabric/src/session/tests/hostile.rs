//! Callers that hang up, dawdle, repeat others or talk invalid data.

use super::*;
use crate::session::answer::Answer;
use crate::session::preface::Preface;
use crate::session::responder::{Rejection, Responder, Rules, Step};

#[test]
fn a_handshake_cut_at_any_byte_is_truncated() {
    for credentials in [Credentials::None, with_key()] {
        let acceptor = open(lenient());
        let mut whole = Raw::new(&acceptor, &credentials);
        whole.shake_hands(usize::MAX).expect("in");
        let length = whole.bytes.len();
        for cut in 0..length {
            let mut raw = Raw::new(&acceptor, &credentials);
            assert!(raw.shake_hands(cut).is_none(), "{cut} of {length}");
            drop(raw);
            let expected = [("truncated", cut as u64 + 1)];
            wait_for("a cut handshake", || refusals(&acceptor) == expected);
        }
        assert_eq!(acceptor.counts().accepted(), 1);
        wait_for("an empty listener", || acceptor.counts().half_open() == 0);
    }
}

#[test]
fn a_whole_handshake_and_a_goodbye_is_a_session() {
    let acceptor = open(lenient());
    let mut raw = Raw::new(&acceptor, &Credentials::None);
    raw.shake_hands(usize::MAX).expect("in");
    // All that it sends before it receives anything, and no more.
    let mut socket = connect(&acceptor);
    socket.write_all(&raw.bytes).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    wait_for("the session", || acceptor.counts().accepted() == 2);
    assert_eq!(refusals(&acceptor), []);
}

#[test]
fn slow_callers_are_sent_away() {
    let acceptor = open(AcceptorConfig { handshake: Duration::from_millis(50), ..lenient() });
    // Nothing; one byte; all of the magic and a bit; a lane's greeting begun; a preface.
    let begun = [&b""[..], b"W", b"WLC1\x01", b"WLT1\x00", &Preface::Plain.to_bytes()];
    let mut sockets = begun.map(|begun| {
        let mut socket = connect(&acceptor);
        // On a slow machine it is late already.
        let _ = socket.write_all(begun);
        socket
    });
    wait_for("all to be late", || refusals(&acceptor) == [("slow", 5)]);
    for socket in &mut sockets {
        // Reset or closed, but over.
        let _ = socket.read_to_end(&mut Vec::new());
    }
    assert_eq!((acceptor.counts().accepted(), acceptor.counts().alive()), (0, 0));
}

#[test]
fn who_is_given_up_hears_why_at_any_stage() {
    let no = Rejection::new(Reason::Slow, "it took too long");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    for credentials in [Credentials::None, with_key()] {
        // Before its preface was received, and after.
        for late in [false, true] {
            let mut responder = Responder::new(&Rules::new(lenient()).unwrap(), address);
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            let mut initiator = Initiator::new(&credentials, b"", &mut sent).unwrap();
            if late {
                let step = responder.take(&sent, Instant::now(), &mut received);
                assert!(matches!(step, Step::More));
            }
            responder.refuse(&no, &mut received);
            let trouble = initiator.take(&received, &mut sent).map(drop).unwrap_err();
            assert!(trouble.why.contains("(slow): it took too long"), "{trouble:?}");
        }
    }
}

#[test]
fn a_recorded_first_message_is_refused() {
    let acceptor = open(config());
    let mut raw = Raw::new(&acceptor, &with_key());
    let first = raw.bytes.len();
    raw.shake_hands(usize::MAX).expect("in");
    for replayed in [&raw.bytes[..first], &raw.bytes] {
        let answer = answer(&acceptor, replayed);
        let (answer, _) = Answer::parse(&answer).unwrap().unwrap();
        assert_eq!(answer.verdict, Reason::Replayed.code());
        assert!(String::from_utf8(answer.body).unwrap().contains("recorded"));
    }
    assert_eq!(refusals(&acceptor), [("replayed", 2)]);
    assert_eq!(acceptor.counts().accepted(), 1);
}

#[test]
fn a_recorded_handshake_fails_later_where_nobody_remembers_it() {
    let first = open(config());
    let mut raw = Raw::new(&first, &with_key());
    raw.shake_hands(usize::MAX).expect("in");
    // Another process with the same key, as after a restart.
    let second = open(config());
    let received = answer(&second, &raw.bytes);
    let (answer, _) = Answer::parse(&received).unwrap().unwrap();
    assert_eq!(answer.verdict, 0, "the first message alone is good");
    assert_eq!(refusals(&second), [("wrong_key", 1)]);
    assert_eq!(second.counts().accepted(), 0);
}

#[test]
fn fields_too_long_and_invalid_bytes_are_refused_at_once() {
    let acceptor = open(lenient());
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
        let received = answer(&acceptor, &preface);
        let (answer, length) = Answer::parse(&received).unwrap().unwrap();
        assert_eq!((answer.verdict, length), (reason.code(), received.len()), "{reason:?}");
    }
    // A hello's length, long before a hello: nothing is kept for it.
    let received = answer(&acceptor, &[&plain(0, b"")[..], &u32::MAX.to_le_bytes()].concat());
    assert!(String::from_utf8_lossy(&received).contains("4294967295 bytes"));
    assert_eq!(refusals(&acceptor), [("oversized", 3), ("protocol_error", 4)]);
}
