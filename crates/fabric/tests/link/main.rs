//! Links between two endpoints of one process, over what any machine has.

mod two;

use fabric::link::{Class, Policy};
use fabric::{Done, Failure, Op, OpKind, Rights, Work};

use two::{Two, settings};

#[test]
fn two_processes_of_one_host_meet_in_shared_memory() {
    let two = Two::new(settings(), settings());
    assert_eq!(two.lane(), "shm");
    two.exercise();
}

#[test]
fn without_shared_memory_it_is_tcp_and_says_why() {
    let mut only_tcp = settings();
    only_tcp.classes = vec![Class::Tcp, Class::Verbs];
    let two = Two::new(only_tcp, settings());
    assert_eq!(two.lane(), "tcp");
    let explained = two.dialler.report().explain();
    assert!(explained.why.contains("shm: not wanted at this end"), "{}", explained.why);
    two.exercise();
}
