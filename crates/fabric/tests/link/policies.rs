//! RDMA policies, and ends whose policies conflict.

use std::time::Duration;

use fabric::link::{Endpoint, EndpointSettings, PeerPolicy, Policy, Transport};
use fabric::{Error, ErrorKind, verbs};

use crate::pair::{LIMIT, LinkPair, anywhere, only, settings};

fn with_policy(policy: Policy) -> EndpointSettings {
    EndpointSettings { policy, ..settings() }
}

/// The error of a connection that must fail, and the listener's counts of refused hellos.
fn refused(
    dials: EndpointSettings,
    accepts: EndpointSettings,
) -> (Error, Vec<(&'static str, u64)>) {
    let ends = [Endpoint::new(dials).unwrap(), Endpoint::new(accepts).unwrap()];
    let listener = ends[1].listen(anywhere()).unwrap();
    let error = ends[0].connect(listener.address(), LIMIT).err().expect("refused");
    (error, listener.counts().refused_hellos())
}

#[test]
fn missing_required_rdma_is_refused_at_connect_with_the_reason() {
    let (error, codes) = refused(with_policy(Policy::Require), settings());
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let text = error.to_string();
    assert!(text.contains("this end has no RDMA"), "{text}");
    assert!(text.contains("no-such-libibverbs.so"), "the missing library: {text}");
    assert_eq!(codes, []);
}

#[test]
fn a_listener_that_requires_rdma_refuses_links_without_it() {
    let (error, _) = refused(settings(), with_policy(Policy::Require));
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("RDMA"), "{error}");
}

#[test]
fn preferred_and_missing_rdma_falls_back_to_tcp_with_the_reason() {
    let transports = [Transport::Verbs, Transport::Tcp];
    let pair = LinkPair::new(only(&transports), only(&transports));
    for link in [&pair.initiator, &pair.accepted] {
        let status = link.report().status();
        assert_eq!((status.transport, status.policy), (Some("tcp"), "prefer"));
        assert!(status.why.contains("verbs: this end has no RDMA"), "{}", status.why);
        assert!(status.why.contains("no-such-libibverbs.so"), "{}", status.why);
    }
    pair.exercise();
}

#[test]
fn conflicting_policies_are_refused_by_the_listener_and_counted() {
    for [dials, accepts] in [[Policy::Require, Policy::Off], [Policy::Off, Policy::Require]] {
        let (error, codes) = refused(with_policy(dials), with_policy(accepts));
        assert_eq!(codes, [("policy", 1)], "{error}");
        let text = error.to_string();
        assert!(text.contains("policy") && text.contains("it is off"), "{text}");
    }
}

#[test]
fn policies_can_be_set_by_peer_address() {
    let special = |network: &str, prefix, policy| PeerPolicy {
        network: network.parse().unwrap(),
        prefix,
        policy,
    };
    let elsewhere = special("192.0.2.0", 24, Policy::Require);
    let here_off = special("127.0.0.0", 8, Policy::Off);
    let later = special("127.0.0.1", 32, Policy::Require);
    let dials = EndpointSettings { peer_policies: vec![elsewhere, here_off, later], ..settings() };
    let pair = LinkPair::new(dials.clone(), settings());
    let status = pair.initiator.report().status();
    assert_eq!(status.policy, "off", "the first match");
    assert!(status.left_out.contains(&"verbs: RDMA is off by policy".to_owned()));
    assert_eq!(pair.accepted.report().status().policy, "off");

    let accepts = EndpointSettings { peer_policies: vec![elsewhere, later], ..settings() };
    let (error, codes) = refused(dials, accepts);
    assert_eq!(codes, [("policy", 1)], "{error}");
}

#[test]
fn invalid_settings_are_refused() {
    let verbs = verbs::Config { qp_type: verbs::QpType::Ud, ..verbs::Config::default() };
    let error = Endpoint::new(EndpointSettings { verbs, ..settings() }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("links need reliable connections"), "{error}");

    let tcp = EndpointSettings { policy: Policy::Require, ..only(&[Transport::Tcp]) };
    let error = Endpoint::new(tcp).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert!(error.to_string().contains("RDMA is required, but neither verbs nor"), "{error}");

    assert_eq!(Endpoint::new(only(&[])).unwrap_err().kind(), ErrorKind::Misuse);
}

#[test]
fn a_missing_or_silent_peer_is_an_error_within_the_limit() {
    let endpoint = Endpoint::new(settings()).unwrap();
    let address = std::net::TcpListener::bind(anywhere()).unwrap().local_addr().unwrap();
    let error = endpoint.connect(address, LIMIT).err().expect("no listener");
    assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
    // A server that accepts the connection and sends nothing.
    let silent = std::net::TcpListener::bind(anywhere()).unwrap();
    let address = silent.local_addr().unwrap();
    let error = endpoint.connect(address, Duration::from_millis(200)).err().expect("no answer");
    assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
}

/// Root refuses other users, and the other user sees why. Shared memory is not tried again, so nothing is left to wait for.
#[test]
fn shared_memory_of_another_user_is_refused_immediately_with_the_reason() {
    const OTHER: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a thread as another user");
        return;
    }
    let [dials, accepts] = [(); 2].map(|()| Endpoint::new(only(&[Transport::Shm])).unwrap());
    let listener = accepts.listen(anywhere()).unwrap();
    let address = listener.address();
    let connecting = std::thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(OTHER)).unwrap();
        dials.connect(address, LIMIT).err().expect("refused")
    });
    let mut accepted = listener.accept(LIMIT).unwrap().unwrap();
    while !connecting.is_finished() {
        fabric::wait(&mut accepted, &mut Vec::new(), Duration::from_millis(1));
    }
    let error = connecting.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let text = error.to_string();
    let reason = "the peer runs as user 0 and accepts only its own user and root; this process runs as 65534";
    assert!(text.contains(reason), "{text}");
    assert!(!text.contains("no rail was up for"), "it waited for a timeout: {text}");
}
