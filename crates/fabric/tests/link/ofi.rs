//! Links over libfabric, with the providers that any machine has.

use fabric::link::{Endpoint, EndpointSettings, Policy, Transport};
use fabric::{ErrorKind, OpKind};

use crate::pair::{LIMIT, LinkPair, anywhere, only, settings};

fn by(provider: Option<&str>, transports: &[Transport]) -> EndpointSettings {
    EndpointSettings { ofi_provider: provider.map(str::to_owned), ..only(transports) }
}

#[test]
fn alone_libfabric_uses_software_and_names_the_provider() {
    let pair = LinkPair::over(Transport::Ofi);
    for link in [&pair.initiator, &pair.accepted] {
        let status = link.report().status();
        assert!(status.rails[0].name.starts_with("tcp"), "{status:#?}");
        assert_eq!(status.rails.len(), 1, "one software rail is enough: {status:#?}");
    }
    let why = pair.initiator.report().status().why;
    assert!(why.contains("libfabric provider tcp") && why.contains(" on 127.0.0."), "{why}");
    let providers = pair.ends[0].providers().expect("enabled").expect("available");
    assert!(providers.iter().any(|name| name.starts_with("tcp")), "{providers:?}");
    let transferred = pair.ends[0].clone();
    pair.exercise();
    assert!(transferred.transferred(Transport::Ofi).operations(OpKind::Write) > 0);
}

#[test]
fn with_other_transports_software_must_be_requested() {
    let both = [Transport::Ofi, Transport::Tcp];
    let pair = LinkPair::new(by(None, &both), by(None, &both));
    assert_eq!(pair.transport(), "tcp");
    let why = pair.initiator.report().status().why;
    assert!(why.contains("ofi: this end has no libfabric: libfabric has none of"), "{why}");
    let mut named = LinkPair::new(by(Some("tcp"), &both), by(Some("tcp"), &both));
    named.until_transport("ofi");
    named.exercise();
    let pair = LinkPair::new(by(Some("tcp"), &both), settings());
    let status = pair.initiator.report().status();
    assert!(status.why.contains("ofi: not enabled at the peer"), "{}", status.why);
}

#[test]
fn libfabric_shared_memory_works() {
    let pair =
        LinkPair::new(by(Some("shm"), &[Transport::Ofi]), by(Some("shm"), &[Transport::Ofi]));
    assert_eq!(pair.transport(), "ofi");
    assert!(pair.initiator.report().status().rails[0].name.starts_with("shm "));
    pair.exercise();
}

#[test]
fn a_missing_provider_is_refused_with_the_reason() {
    let missing = Endpoint::new(by(Some("nowhere"), &[Transport::Ofi])).unwrap();
    let listener = Endpoint::new(only(&[Transport::Ofi])).unwrap().listen(anywhere()).unwrap();
    let error = missing.connect(listener.address(), LIMIT).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("no libfabric provider nowhere; available"), "{error}");
    let required = EndpointSettings { policy: Policy::Require, ..only(&[Transport::Ofi]) };
    let error = Endpoint::new(required).unwrap().connect(listener.address(), LIMIT);
    let error = error.err().expect("software is not RDMA");
    assert!(error.to_string().contains("RDMA is required"), "{error}");
}

/// The two ends request different providers.
#[test]
fn different_providers_do_not_connect() {
    let pair = [by(Some("tcp"), &[Transport::Ofi]), by(Some("shm"), &[Transport::Ofi])];
    let [dials, accepts] = pair.map(|settings| Endpoint::new(settings).unwrap());
    let listener = accepts.listen(anywhere()).unwrap();
    let error = dials.connect(listener.address(), LIMIT).err().expect("refused");
    assert!(error.to_string().contains("the peer has shm"), "{error}");
}
