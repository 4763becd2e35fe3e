//! Authentication and encryption of links.

use std::time::Duration;

use fabric::link::{Endpoint, EndpointSettings, Transport};
use fabric::session::{Credentials, Key, Reason};
use fabric::{Error, ErrorKind};

use crate::pair::{LIMIT, LinkPair, anywhere, join, settings};

fn key(name: &str, digit: &str) -> Key {
    Key::from_hex(name, &digit.repeat(64)).unwrap()
}

fn with(credentials: Credentials) -> EndpointSettings {
    EndpointSettings { credentials, ..settings() }
}

/// Accepts one key, and no anonymous callers.
fn guarded() -> EndpointSettings {
    let settings = EndpointSettings { require_authentication: true, ..settings() };
    settings.keyring.add(key("night", "a")).unwrap();
    settings
}

#[test]
fn a_caller_with_the_key_is_accepted_under_its_name() {
    let pair = LinkPair::new(with(Credentials::Key(key("mine", "a"))), guarded());
    let [here, there] = [&pair.initiator, &pair.accepted].map(|link| link.report().status());
    assert!(here.encrypted && there.encrypted);
    assert_eq!((here.identity.as_str(), there.identity.as_str()), ("mine", "night"));
    pair.exercise();
}

#[test]
fn callers_with_another_key_or_none_are_refused() {
    let listens = Endpoint::new(guarded()).unwrap();
    let listener = listens.listen(anywhere()).unwrap();
    let call = |credentials| -> Error {
        let endpoint = Endpoint::new(with(credentials)).unwrap();
        endpoint.connect(listener.address(), LIMIT).err().expect("refused")
    };
    let error = call(Credentials::Key(key("other", "b")));
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert_eq!(listener.counts().refused(Reason::WrongKey), 1);
    let error = call(Credentials::None);
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert_eq!(listener.counts().refused(Reason::Unauthenticated), 1);
    assert_eq!(listener.counts().accepted(), 0);
}

#[test]
fn without_authentication_callers_are_anonymous() {
    let pair = LinkPair::new(settings(), settings());
    let status = pair.accepted.report().status();
    assert_eq!((status.identity.as_str(), status.encrypted), ("anonymous", false));
}

#[test]
fn a_ticket_opens_one_link() {
    let accepts = guarded();
    let ticket = accepts.keyring.issue("worker-7", Duration::from_secs(60)).unwrap();
    let endpoint = Endpoint::new(accepts).unwrap();
    let listener = endpoint.listen(anywhere()).unwrap();
    let caller = Endpoint::new(with(Credentials::Ticket(ticket))).unwrap();
    let (_initiator, accepted) = join(&caller, &listener);
    assert_eq!(accepted.report().status().identity, "worker-7");
    let error = caller.connect(listener.address(), LIMIT).err().expect("the ticket is used");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert_eq!(listener.counts().accepted(), 1);
}

fn encrypted(mut settings: EndpointSettings) -> EndpointSettings {
    settings.transports = vec![Transport::Tcp];
    settings.tcp.encrypt = true;
    settings
}

#[test]
fn encrypted_lanes_support_all_operations() {
    let dials = encrypted(with(Credentials::Key(key("mine", "a"))));
    let pair = LinkPair::new(dials, encrypted(guarded()));
    assert_eq!(pair.transport(), "tcp");
    pair.exercise();
}

#[test]
fn lanes_are_encrypted_if_one_end_requires_it() {
    let key = || with(Credentials::Key(key("mine", "a")));
    let plain = |settings: EndpointSettings| EndpointSettings {
        transports: vec![Transport::Tcp],
        ..settings
    };
    LinkPair::new(encrypted(key()), plain(guarded())).exercise();
    LinkPair::new(plain(key()), encrypted(guarded())).exercise();
}

/// Keys of lanes are sent over the control connection, which must be encrypted for that.
#[test]
fn required_encryption_fails_without_a_key() {
    for [dials, accepts] in
        [[encrypted(settings()), settings()], [settings(), encrypted(settings())]]
    {
        let [dials, accepts] = [dials, accepts]
            .map(|end| EndpointSettings { transports: vec![Transport::Tcp], ..end });
        let (caller, host) = (Endpoint::new(dials).unwrap(), Endpoint::new(accepts).unwrap());
        let listener = host.listen(anywhere()).unwrap();
        let error = caller.connect(listener.address(), LIMIT).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("there is no key"), "{error}");
    }
}
