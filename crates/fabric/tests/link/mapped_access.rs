//! Reading the peer's memory without an operation.

use fabric::link::Transport;
use fabric::{Lane, MappedInto, Op, Rights};

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
    assert!(pair.initiator.read_mapped(&window, 64, MappedInto::Slice(&ours.slice(128..136))));
    assert_eq!(ours.memory().load(128), 77);
    let mut bytes = [0xff; 11];
    assert!(pair.initiator.read_mapped(&window, 64, MappedInto::Bytes(&mut bytes)));
    assert_eq!(bytes, [77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for at in [4096 - 7, u64::MAX - 7, u64::MAX] {
        let slice = ours.slice(..8);
        assert!(!pair.initiator.read_mapped(&window, at, MappedInto::Slice(&slice)), "at {at}");
        let bytes = MappedInto::Bytes(&mut bytes[..8]);
        assert!(!pair.initiator.read_mapped(&window, at, bytes), "at {at}");
    }
    let writable = pair.region(1, 4096, Rights { write: true, ..Rights::NONE });
    let blind = pair.grant(&writable);
    assert!(
        !pair.initiator.read_mapped(&blind, 0, MappedInto::Slice(&ours.slice(..8))),
        "not for reading"
    );
    drop(theirs);
    assert!(
        !pair.initiator.read_mapped(&window, 0, MappedInto::Slice(&ours.slice(..8))),
        "it was revoked"
    );
}

#[test]
fn read_mapped_is_not_supported_over_tcp() {
    let mut pair = LinkPair::over(Transport::Tcp);
    let theirs = pair.region(1, 4096, OPEN);
    let window = pair.grant(&theirs);
    let ours = pair.region(0, 64, Rights::NONE);
    pair.do_one(Op::write(0, ours.slice(..8), window.at(0))).unwrap();
    assert!(!pair.initiator.uses_shared_memory());
    assert!(!pair.initiator.read_mapped(&window, 0, MappedInto::Slice(&ours.slice(..8))));
}
