//! Links over libfabric, by the providers that any machine has.

use fabric::link::{Class, Endpoint, Policy, Settings};
use fabric::{Kind, OpKind};

use crate::pair::{LIMIT, Two, anywhere, only, settings};

fn by(provider: Option<&str>, classes: &[Class]) -> Settings {
    Settings { ofi_provider: provider.map(str::to_owned), ..only(classes) }
}

#[test]
fn alone_it_uses_software_and_names_the_provider() {
    let two = Two::over(Class::Ofi);
    for link in [&two.dialler, &two.acceptor] {
        let explained = link.report().explain();
        assert!(explained.rails[0].name.starts_with("tcp"), "{explained:#?}");
        assert_eq!(explained.rails.len(), 1, "of software one is enough: {explained:#?}");
    }
    let why = two.dialler.report().explain().why;
    assert!(why.contains("of libfabric on 127.0.0."), "{why}");
    let providers = two.ends[0].providers().expect("it is asked").expect("it is here");
    assert!(providers.iter().any(|name| name.starts_with("tcp")), "{providers:?}");
    let transferred = two.ends[0].clone();
    two.exercise();
    assert!(transferred.transferred(Class::Ofi).operations(OpKind::Write) > 0);
}

#[test]
fn beside_others_software_must_be_named() {
    let both = [Class::Ofi, Class::Tcp];
    let two = Two::new(by(None, &both), by(None, &both));
    assert_eq!(two.lane(), "tcp");
    let why = two.dialler.report().explain().why;
    assert!(why.contains("ofi: this end has no libfabric: libfabric has none of"), "{why}");
    let named = Two::new(by(Some("tcp"), &both), by(Some("tcp"), &both));
    assert_eq!(named.lane(), "ofi");
    named.exercise();
    let two = Two::new(by(Some("tcp"), &both), settings());
    let explained = two.dialler.report().explain();
    assert!(explained.why.contains("ofi: not wanted at the peer"), "{}", explained.why);
}

#[test]
fn by_its_own_shared_memory_too() {
    let two = Two::new(by(Some("shm"), &[Class::Ofi]), by(Some("shm"), &[Class::Ofi]));
    assert_eq!(two.lane(), "ofi");
    assert!(two.dialler.report().explain().rails[0].name.starts_with("shm "));
    two.exercise();
}

#[test]
fn a_provider_that_is_not_there_is_refused_with_the_reason() {
    let missing = Endpoint::new(by(Some("nowhere"), &[Class::Ofi])).unwrap();
    let listener = Endpoint::new(only(&[Class::Ofi])).unwrap().listen(anywhere()).unwrap();
    let error = missing.connect(listener.address(), LIMIT).err().expect("refused");
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    assert!(error.to_string().contains("libfabric has no provider nowhere here"), "{error}");
    let required = Settings { policy: Policy::Require, ..only(&[Class::Ofi]) };
    let error = Endpoint::new(required).unwrap().connect(listener.address(), LIMIT);
    let error = error.err().expect("software is no RDMA");
    assert!(error.to_string().contains("RDMA is required"), "{error}");
}

/// Both name the same provider, and one has it only by another name.
#[test]
fn providers_of_two_names_do_not_meet() {
    let two = [by(Some("tcp"), &[Class::Ofi]), by(Some("shm"), &[Class::Ofi])];
    let [dials, accepts] = two.map(|settings| Endpoint::new(settings).unwrap());
    let listener = accepts.listen(anywhere()).unwrap();
    let error = dials.connect(listener.address(), LIMIT).err().expect("refused");
    assert!(error.to_string().contains("and the peer shm"), "{error}");
}
