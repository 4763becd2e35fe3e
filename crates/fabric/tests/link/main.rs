//! Links between two endpoints, over what any machine has.
#![allow(missing_docs, reason = "a test")]

mod authentication;
mod awaited;
mod beside;
mod containers;
mod crowd;
mod ends;
mod faults;
mod messages;
#[cfg(feature = "external-tests")]
mod ofi;
mod peek;
mod peer;
mod policies;
mod regions;
mod sleeping;
mod transferred;
mod two;

use fabric::link::Class;

use two::{Two, only, settings};

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
