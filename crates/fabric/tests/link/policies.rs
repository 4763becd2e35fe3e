//! Who wants RDMA, who must have it, and what becomes of those who disagree.

use std::time::Duration;

use fabric::link::{Class, Endpoint, PeerPolicy, Policy, Settings};
use fabric::{Error, Kind, verbs};

use crate::pair::{LIMIT, Two, anywhere, only, settings};

fn with_policy(policy: Policy) -> Settings {
    Settings { policy, ..settings() }
}

/// What comes of a call that must fail, and how the listener counted it.
fn refused(dials: Settings, accepts: Settings) -> (Error, Vec<(&'static str, u64)>) {
    let ends = [Endpoint::new(dials).unwrap(), Endpoint::new(accepts).unwrap()];
    let listener = ends[1].listen(anywhere()).unwrap();
    let error = ends[0].connect(listener.address(), LIMIT).err().expect("refused");
    (error, listener.counts().refused_hellos())
}

#[test]
fn what_is_required_and_not_there_is_refused_at_connect_with_the_reason() {
    let (error, codes) = refused(with_policy(Policy::Require), settings());
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    let said = error.to_string();
    assert!(said.contains("this end has no RDMA"), "{said}");
    assert!(said.contains("no-such-libibverbs.so"), "the library that is missing: {said}");
    assert_eq!(codes, []);
}

#[test]
fn a_listener_that_requires_rdma_takes_no_link_without_it() {
    let (error, _) = refused(settings(), with_policy(Policy::Require));
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    assert!(error.to_string().contains("RDMA"), "{error}");
}

#[test]
fn where_rdma_is_preferred_and_missing_it_is_tcp_and_the_reason_is_shown() {
    let classes = [Class::Verbs, Class::Tcp];
    let two = Two::new(only(&classes), only(&classes));
    for link in [&two.dialler, &two.acceptor] {
        let explained = link.report().explain();
        assert_eq!((explained.lane, explained.policy), (Some("tcp"), "prefer"));
        assert!(explained.why.contains("verbs: this end has no RDMA"), "{}", explained.why);
        assert!(explained.why.contains("no-such-libibverbs.so"), "{}", explained.why);
    }
    two.exercise();
}

#[test]
fn required_here_and_off_there_is_refused_by_the_listener_and_counted() {
    for [dials, accepts] in [[Policy::Require, Policy::Off], [Policy::Off, Policy::Require]] {
        let (error, codes) = refused(with_policy(dials), with_policy(accepts));
        assert_eq!(codes, [("policy", 1)], "{error}");
        let said = error.to_string();
        assert!(said.contains("policy") && said.contains("it is off"), "{said}");
    }
}

#[test]
fn peers_have_policies_of_their_own_by_address() {
    let special = |network: &str, prefix, policy| PeerPolicy {
        network: network.parse().unwrap(),
        prefix,
        policy,
    };
    let elsewhere = special("192.0.2.0", 24, Policy::Require);
    let here_off = special("127.0.0.0", 8, Policy::Off);
    let later = special("127.0.0.1", 32, Policy::Require);
    let dials = Settings { peer_policies: vec![elsewhere, here_off, later], ..settings() };
    let two = Two::new(dials.clone(), settings());
    let explained = two.dialler.report().explain();
    assert_eq!(explained.policy, "off", "the first that fits");
    assert!(explained.left_out.contains(&"verbs: RDMA is off by policy".to_owned()));
    assert_eq!(two.acceptor.report().explain().policy, "off");

    let accepts = Settings { peer_policies: vec![elsewhere, later], ..settings() };
    let (error, codes) = refused(dials, accepts);
    assert_eq!(codes, [("policy", 1)], "{error}");
}

#[test]
fn settings_that_cannot_be_meant_make_no_endpoint() {
    let verbs = verbs::Config { qp_type: verbs::QpType::Ud, ..verbs::Config::default() };
    let error = Endpoint::new(Settings { verbs, ..settings() }).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("links need reliable connections"), "{error}");

    let tcp = Settings { policy: Policy::Require, ..only(&[Class::Tcp]) };
    let error = Endpoint::new(tcp).unwrap_err();
    assert_eq!(error.kind(), Kind::Misuse);
    assert!(error.to_string().contains("RDMA is required, and verbs are not among"), "{error}");

    assert_eq!(Endpoint::new(only(&[])).unwrap_err().kind(), Kind::Misuse);
}

#[test]
fn nobody_there_is_said_within_the_limit() {
    let endpoint = Endpoint::new(settings()).unwrap();
    let address = std::net::TcpListener::bind(anywhere()).unwrap().local_addr().unwrap();
    let error = endpoint.connect(address, LIMIT).err().expect("nobody listens");
    assert_eq!(error.kind(), Kind::Gone, "{error}");
    // Somebody who takes the connection and says nothing.
    let silent = std::net::TcpListener::bind(anywhere()).unwrap();
    let address = silent.local_addr().unwrap();
    let error = endpoint.connect(address, Duration::from_millis(200)).err().expect("no answer");
    assert_eq!(error.kind(), Kind::Gone, "{error}");
}
