//! Links between two endpoints, over what any machine has.
#![allow(missing_docs, reason = "a test")]

mod async_link;
mod authentication;
mod containers;
mod counters;
mod ends;
mod faults;
mod many_callers;
mod messages;
#[cfg(feature = "external-tests")]
mod ofi;
mod pair;
mod peek;
mod peer;
mod policies;
mod regions;
mod shared_port;
mod sleeping;

use fabric::link::Class;

use pair::{Two, only, settings};

#[test]
fn two_processes_of_one_host_meet_in_shared_memory() {
    let two = Two::new(settings(), settings());
    assert_eq!(two.lane(), "shm");
    two.exercise();
}

#[test]
fn without_shared_memory_it_is_tcp_and_says_why() {
    let only_tcp = only(&[Class::Tcp, Class::Verbs]);
    let two = Two::new(only_tcp, settings());
    assert_eq!(two.lane(), "tcp");
    let explained = two.dialler.report().explain();
    assert!(explained.why.contains("shm: not wanted at this end"), "{}", explained.why);
    two.exercise();
}
