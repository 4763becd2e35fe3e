//! Reading the peer's memory without an operation.

use fabric::link::Transport;
use fabric::{Lane, Op, Rights};

use crate::pair::LinkPair;

const OPEN: Rights = Rights { read: true, write: true, atomic: false };

#[test]
fn read_mapped_reads_mapped_memory_and_nothing_else() {
    let mut pair = LinkPair::over(Transport::Shm);
    let theirs = pair.region(1, 4096, OPEN);
    let window = pair.grant(&theirs);
    let ours = pair.region(0, 4096, Rights::NONE);
    // The first operation waits for the region's key; `read_mapped` does not.
    pair.do_one(Op::write(0, ours.slice(..8), window.at(0))).unwrap();
    assert!(pair.initiator.uses_shared_memory());
    theirs.memory().store(64, 77);
    assert!(pair.initiator.read_mapped(&window, 64, &ours.slice(128..136)));
    assert_eq!(ours.memory().load(128), 77);
    assert!(!pair.initiator.read_mapped(&window, 4092, &ours.slice(..8)), "beyond its end");
    assert!(!pair.initiator.read_mapped(&window, u64::MAX, &ours.slice(..8)), "far beyond");
    let writable = pair.region(1, 4096, Rights { write: true, ..Rights::NONE });
    let blind = pair.grant(&writable);
    assert!(!pair.initiator.read_mapped(&blind, 0, &ours.slice(..8)), "not for reading");
    drop(theirs);
    assert!(!pair.initiator.read_mapped(&window, 0, &ours.slice(..8)), "it was revoked");
}

#[test]
fn read_mapped_is_not_supported_over_tcp() {
    let mut pair = LinkPair::over(Transport::Tcp);
    let theirs = pair.region(1, 4096, OPEN);
    let window = pair.grant(&theirs);
    let ours = pair.region(0, 64, Rights::NONE);
    pair.do_one(Op::write(0, ours.slice(..8), window.at(0))).unwrap();
    assert!(!pair.initiator.uses_shared_memory());
    assert!(!pair.initiator.read_mapped(&window, 0, &ours.slice(..8)));
}
