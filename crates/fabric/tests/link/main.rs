//! Links between two endpoints, over transports that any machine has.
#![allow(missing_docs, reason = "a test")]

mod async_link;
mod authentication;
mod containers;
mod counters;
mod ends;
mod faults;
mod many_callers;
mod mapped_access;
mod messages;
#[cfg(feature = "external-tests")]
mod ofi;
mod pair;
mod peer;
mod policies;
mod regions;
mod shared_port;
mod sleeping;

use fabric::link::Transport;

use pair::{LinkPair, only, settings};

#[test]
fn on_one_host_shared_memory_is_used() {
    let mut pair = LinkPair::new(settings(), settings());
    pair.until_transport("shm");
    pair.exercise();
}

#[test]
fn without_shared_memory_tcp_is_used_with_the_reason() {
    let only_tcp = only(&[Transport::Tcp, Transport::Verbs]);
    let pair = LinkPair::new(only_tcp, settings());
    assert_eq!(pair.transport(), "tcp");
    let status = pair.initiator.report().status();
    assert!(status.why.contains("shm: not enabled at this end"), "{}", status.why);
    pair.exercise();
}
