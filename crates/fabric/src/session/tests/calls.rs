//! Accepted and refused initiators, and the messages both ends see.

use std::net::TcpListener;
use std::thread;

use super::*;
use crate::error::ErrorKind;
use crate::session::answer::Answer;
use crate::session::key::Secret;
use crate::session::preface::Versions;
use crate::session::{Keyring, MAX_MESSAGE, Refusal, Ticket};

fn other_key() -> Credentials {
    Credentials::Key(Key::from_hex("cluster", &"0e".repeat(32)).unwrap())
}

#[test]
fn an_initiator_without_a_key_is_refused_with_a_fix() {
    let listener = open(config());
    let error = call(&listener, &Credentials::None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let text = error.to_string();
    assert!(text.contains(&listener.address().to_string()), "{text}");
    assert!(text.contains("unauthenticated") && text.contains("connect with a key"), "{text}");
    assert_eq!(error.refusal(), Some("unauthenticated"));
    assert_eq!(refusals(&listener), [("unauthenticated", 1)]);
    assert_eq!(listener.counts().accepted(), 0);
}

#[test]
fn an_unknown_key_and_a_wrong_secret_get_the_same_answer() {
    let listener = open(config());
    let unknown = call(&listener, &other_key()).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Denied);
    assert!(unknown.to_string().contains("wrong_key"), "{unknown}");
    // The right id with another secret.
    let wrong = Ticket { id: key().id(), secret: Secret::new([1; 32]) };
    let wrong = call(&listener, &Credentials::Ticket(wrong)).unwrap_err();
    assert_eq!(wrong, unknown);
    assert_eq!(refusals(&listener), [("wrong_key", 2)]);
}

#[test]
fn a_key_is_refused_by_a_listener_that_has_none() {
    let listener = open(ListenerConfig { keyring: Keyring::new(), ..lenient() });
    let error = call(&listener, &with_key()).unwrap_err();
    assert_eq!((error.kind(), error.refusal()), (ErrorKind::Denied, Some("no_authentication")));
    assert!(error.to_string().contains("connect without credentials"), "{error}");
    call(&listener, &Credentials::None).unwrap();
    // A listener that has keys, or requires them, does not say which it knows.
    for config in [lenient(), ListenerConfig { keyring: Keyring::new(), ..config() }] {
        let error = call(&open(config), &other_key()).unwrap_err();
        assert_eq!(error.refusal(), Some("wrong_key"), "{error}");
    }
}

#[test]
fn keys_can_be_replaced_while_the_listener_is_open() {
    let config = config();
    let keyring = config.keyring.clone();
    let listener = open(config);
    let new = Key::from_hex("new", &"11".repeat(32)).unwrap();
    keyring.add(new.clone()).unwrap();
    assert_eq!(pair(&listener, &Credentials::Key(new.clone())).1.identity(), "new");
    assert_eq!(pair(&listener, &with_key()).1.identity(), "cluster");
    keyring.remove("cluster");
    call(&listener, &with_key()).unwrap_err();
    assert_eq!(pair(&listener, &Credentials::Key(new)).1.identity(), "new");
    assert_eq!(refusals(&listener), [("wrong_key", 1)]);
}

#[test]
fn a_ticket_works_once_and_has_an_identity() {
    let config = config();
    let keyring = config.keyring.clone();
    let listener = open(config);
    let ticket = Credentials::Ticket(keyring.issue("worker-7", LIMIT).unwrap());
    let (initiator, accepted) = pair(&listener, &ticket);
    assert_eq!((initiator.identity(), accepted.identity()), ("ticket", "worker-7"));
    assert!(accepted.is_encrypted());
    assert_eq!(call(&listener, &ticket).unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(refusals(&listener), [("wrong_key", 1)]);
}

#[test]
fn a_ticket_expires() {
    let config = config();
    let keyring = config.keyring.clone();
    let listener = open(config);
    let expired = Credentials::Ticket(keyring.issue("late", Duration::ZERO).unwrap());
    assert_eq!(call(&listener, &expired).unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(refusals(&listener), [("wrong_key", 1)]);
}

#[test]
fn of_two_initiators_with_the_same_ticket_one_is_accepted() {
    let config = config();
    let keyring = config.keyring.clone();
    let listener = open(config);
    let ticket = Credentials::Ticket(keyring.issue("worker-7", LIMIT).unwrap());
    // Both have sent their first message before either sends its hello.
    let (mut one, mut two) =
        (RawInitiator::new(&listener, &ticket), RawInitiator::new(&listener, &ticket));
    for raw in [&mut one, &mut two] {
        let first = raw.bytes.len();
        assert!(raw.shake_hands(first).is_none());
    }
    one.socket.write_all(&one.bytes[73..]).unwrap();
    assert!(listener.accept(LIMIT).is_some());
    two.socket.write_all(&two.bytes[73..]).unwrap();
    wait_for("the refusal", || refusals(&listener) == [("wrong_key", 1)]);
}

#[test]
fn a_replayed_first_message_does_not_use_a_ticket() {
    let config = config();
    let keyring = config.keyring.clone();
    let listener = open(config);
    let ticket = Credentials::Ticket(keyring.issue("worker-7", LIMIT).unwrap());
    let mut attacker = RawInitiator::new(&listener, &ticket);
    assert!(attacker.shake_hands(73).is_none(), "it can only repeat the first message");
    drop(attacker);
    assert_eq!(pair(&listener, &ticket).1.identity(), "worker-7");
    wait_for("the attacker is gone", || refusals(&listener) == [("truncated", 1)]);
}

#[test]
fn the_check_gets_the_initiator_and_its_refusal_is_sent() {
    let mut config = lenient();
    config.check = std::sync::Arc::new(|initiator, hello| {
        assert!(initiator.address.ip().is_loopback());
        match &initiator.identity[..] {
            "cluster" => Ok(hello.to_ascii_uppercase()),
            name => Err(Refusal {
                code: "wrong_cluster",
                text: format!("{name} is of\x1b[31m another cluster:\n see `wirelane doctor`"),
            }),
        }
    });
    let listener = open(config);
    assert_eq!(pair(&listener, &with_key()).0.hello(), b"THE INITIATOR");
    let error = call(&listener, &Credentials::None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let text = error.to_string();
    assert!(text.contains("(wrong_cluster): anonymous is of[31m another cluster: see"), "{text}");
    assert_eq!(refusals(&listener), [("refused", 1)]);
    assert_eq!(listener.counts().refused_hellos(), [("wrong_cluster", 1)]);
    assert_eq!(listener.counts().alive(), 0, "one was dropped, one was refused");
}

#[test]
fn long_texts_and_hellos_of_listeners_are_limited() {
    let mut config = lenient();
    config.check = std::sync::Arc::new(|_, hello| match hello {
        b"the initiator" => Err(Refusal { code: "no", text: "why? ".repeat(10_000) }),
        b"most" => Ok(vec![1; MAX_MESSAGE - 1]),
        _ => Ok(vec![1; MAX_MESSAGE]),
    });
    let listener = open(config);
    for credentials in [Credentials::None, with_key()] {
        let error = call(&listener, &credentials).unwrap_err();
        assert!(error.to_string().len() < 1400, "{error}");
        let connect =
            |hello| connect(listener.address(), &credentials, hello, &Config::default(), LIMIT);
        assert_eq!(connect(b"most").unwrap().hello(), vec![1; MAX_MESSAGE - 1]);
        assert!(connect(b"more").unwrap_err().to_string().contains("hello_too_long"));
    }
    assert_eq!(listener.counts().refused_hellos(), [("hello_too_long", 2), ("no", 2)]);
}

#[test]
fn hellos_are_limited_at_both_ends() {
    let listener = open(lenient());
    for credentials in [Credentials::None, with_key()] {
        let connect = |hello: usize| {
            connect(listener.address(), &credentials, &vec![1; hello], &Config::default(), LIMIT)
        };
        assert_eq!(connect(32 << 10).unwrap().hello(), b"the listener");
        for more in [(32 << 10) + 1, 40_000, MAX_MESSAGE] {
            let error = connect(more).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misuse);
            assert!(error.to_string().contains("oversized"), "{error}");
        }
        let error = connect(MAX_MESSAGE + 1).unwrap_err();
        assert!(error.kind() == ErrorKind::Misuse && !error.to_string().contains("oversized"));
    }
    assert_eq!(refusals(&listener), [("oversized", 6)]);
}

#[test]
fn sessions_are_limited_and_closed_ones_do_not_count() {
    let listener = open(ListenerConfig { max_sessions: 2, ..config() });
    let kept = [pair(&listener, &with_key()), pair(&listener, &with_key())];
    assert_eq!(listener.counts().alive(), 2);
    let error = call(&listener, &with_key()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(error.to_string().contains("too_many_sessions"), "{error}");
    assert_eq!(refusals(&listener), [("too_many_sessions", 1)]);
    let [first, _second] = kept;
    drop(first);
    pair(&listener, &with_key());
    assert_eq!(listener.counts().accepted(), 3);
}

#[test]
fn version_mismatches_name_both_versions() {
    let listener = open(config());
    // A newer initiator; what follows the versions is ignored, however long.
    let future = [&b"WLC1\x07\x09"[..], &[0xab; 100_000]].concat();
    let (answer, _) = Answer::parse(&answer(&listener, &future)).unwrap().unwrap();
    assert_eq!((answer.verdict, answer.chosen, answer.versions), (1, 0, Versions::OURS));
    let text = "the listener supports protocol versions 1 to 1, the initiator 7 to 9: update the older end";
    assert_eq!(String::from_utf8(answer.body).unwrap(), text);
    assert_eq!(refusals(&listener), [("wrong_version", 1)]);
    // A newer listener refuses us.
    let versions = Versions { lowest: 7, highest: 9 };
    let mut refusal = Answer::refuse(Reason::WrongVersion, "you speak 1 to 1, I 7 to 9");
    refusal.versions = versions;
    let error = dial_server(&refusal.to_bytes());
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("(wrong_version): you speak 1 to 1, I 7 to 9"), "{error}");
    // One that chooses a version we did not offer.
    let confused = Answer { chosen: 7, versions, ..Answer::accept(1, Vec::new()) };
    let error = dial_server(&confused.to_bytes());
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("version 7, this end supports 1 to 1"), "{error}");
}

#[test]
fn other_servers_and_closed_connections_are_distinguished() {
    let error = dial_server(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert!(error.to_string().contains("another protocol"), "{error}");
    let error = dial_server(b"");
    assert_eq!(error.kind(), ErrorKind::Gone);
    assert!(error.to_string().contains("before it answered"), "{error}");
    let error = dial_server(&Answer::accept(1, Vec::new()).to_bytes());
    assert_eq!(error.kind(), ErrorKind::Gone);
    assert!(error.to_string().contains("before it answered our hello"), "{error}");
    let unknown = Answer { verdict: 200, ..Answer::refuse(Reason::Slow, "for a new reason") };
    let error = dial_server(&unknown.to_bytes());
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("(code 200): for a new reason"), "{error}");
}

/// Dials a server that sends these bytes, and closes the connection.
fn dial_server(sends: &[u8]) -> Error {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let sends = sends.to_vec();
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut received = [0; 25];
        socket.read_exact(&mut received).unwrap();
        socket.write_all(&sends).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        socket.read_to_end(&mut Vec::new()).unwrap();
    });
    let error = connect(address, &Credentials::None, b"", &Config::default(), LIMIT).unwrap_err();
    server.join().unwrap();
    error
}

#[test]
fn missing_and_silent_listeners_are_gone() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let connect =
        |limit| connect(address, &with_key(), b"", &Config::default(), limit).unwrap_err();
    let silent = connect(Duration::from_millis(50));
    assert_eq!(silent.kind(), ErrorKind::Gone);
    assert!(silent.to_string().contains("did not finish the handshake in time"), "{silent}");
    assert_eq!(connect(Duration::ZERO).kind(), ErrorKind::Gone);
    drop(listener);
    let missing = connect(LIMIT);
    assert_eq!(missing.kind(), ErrorKind::Gone);
    assert!(missing.to_string().contains(&format!("connect to {address}")), "{missing}");
}

#[test]
fn a_listener_cannot_be_opened_twice_on_one_address() {
    let listener = open(config());
    let error = SessionListener::open(listener.address(), config()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::System);
    assert!(error.to_string().contains(&listener.address().to_string()), "{error}");
}

#[test]
fn the_descriptor_is_readable_while_sessions_wait() {
    let listener = open(config());
    let is_readable = || {
        let mut fds = [PollFd::from_borrowed_fd(listener.fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    };
    assert!(!is_readable() && listener.accept(Duration::ZERO).is_none());
    let _callers = [call(&listener, &with_key()).unwrap(), call(&listener, &with_key()).unwrap()];
    for _ in 0..2 {
        wait_for("a session", is_readable);
        assert!(listener.accept(Duration::ZERO).is_some());
    }
    assert!(!is_readable() && listener.accept(Duration::ZERO).is_none());
}
