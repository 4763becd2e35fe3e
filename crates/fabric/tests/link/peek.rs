//! Looking at the peer's memory without an operation.

use fabric::link::Class;
use fabric::{Lane, Op, Rights};

use crate::pair::Two;

const OPEN: Rights = Rights { read: true, write: true, atomic: false };

#[test]
fn what_is_mapped_can_be_looked_at_and_nothing_else() {
    let mut two = Two::over(Class::Shm);
    let theirs = two.region(1, 4096, OPEN);
    let window = two.grant(&theirs);
    let ours = two.region(0, 4096, Rights::NONE);
    // The first operation waits until the region's key is there; a look does not.
    two.do_one(Op::write(0, ours.slice(..8), window.at(0))).unwrap();
    assert!(two.dialler.is_near());
    theirs.memory().store(64, 77);
    assert!(two.dialler.peek(&window, 64, &ours.slice(128..136)));
    assert_eq!(ours.memory().load(128), 77);
    assert!(!two.dialler.peek(&window, 4092, &ours.slice(..8)), "beyond its end");
    assert!(!two.dialler.peek(&window, u64::MAX, &ours.slice(..8)), "far beyond");
    let writable = two.region(1, 4096, Rights { write: true, ..Rights::NONE });
    let blind = two.grant(&writable);
    assert!(!two.dialler.peek(&blind, 0, &ours.slice(..8)), "not for reading");
    drop(theirs);
    assert!(!two.dialler.peek(&window, 0, &ours.slice(..8)), "it was revoked");
}

#[test]
fn over_tcp_there_is_nothing_to_look_at() {
    let mut two = Two::over(Class::Tcp);
    let theirs = two.region(1, 4096, OPEN);
    let window = two.grant(&theirs);
    let ours = two.region(0, 64, Rights::NONE);
    two.do_one(Op::write(0, ours.slice(..8), window.at(0))).unwrap();
    assert!(!two.dialler.is_near());
    assert!(!two.dialler.peek(&window, 0, &ours.slice(..8)));
}
