//! Links between two processes over two wires of the lab, which are cut, delayed and removed while they are in
//! use. Needs the lab, and `--test-threads=1`, since the wires are shared.
#![allow(missing_docs, reason = "a test")]

mod faults;
mod gids;
mod local_end;
mod peer;
mod toggled_rails;

use fabric::Op;
use fabric::link::EventKind;

use local_end::{LocalEnd, wire};
use peer::Peer;

/// The number of bytes in flight when a fault occurs. `WIRELANE_TEST_MIB` changes it.
fn size() -> usize {
    let mib = std::env::var("WIRELANE_TEST_MIB").ok().and_then(|mib| mib.parse().ok());
    mib.unwrap_or(256) << 20
}

const PART: usize = 16 << 20;

/// Writes the whole source, in large operations.
fn post_all(local: &mut LocalEnd) {
    let ops = (0..local.source.len() / PART).map(|at| {
        let begin = at * PART;
        Op::write(at as u64, local.source.slice(begin..begin + PART), local.window.at(begin as u64))
    });
    let ops: Vec<Op> = ops.collect();
    local.post(ops);
}

fn placed(local: &LocalEnd, share: usize) -> bool {
    local.done.len() * share >= local.source.len() / PART
}

#[test]
fn cut_rails_are_left_and_used_again_after_repair() {
    let size = size();
    let peer = Peer::start(size);
    let mut local = LocalEnd::connect(&peer, size);
    local.until("both rails", |local| local.in_use().len() == 2);
    local.fill(1);
    post_all(&mut local);
    local.until("a quarter", |local| placed(local, 4));
    wire("cut 0");
    local.finish();
    // On a busy machine the other rail may have timed out too: then it comes back.
    local.until("the other rail alone", |local| local.in_use() == ["rxe2/1–rxe3/1"]);
    local.verify(1, 0, size >> 20);
    eprintln!("one rail: {:?}", local.events(EventKind::RailDown));

    local.fill(2);
    post_all(&mut local);
    local.until("a quarter", |local| placed(local, 4));
    wire("cut 1");
    local.finish();
    assert_eq!(local.transport(), "tcp");
    local.verify(2, 0, size >> 20);

    wire("repair 0");
    wire("repair 1");
    local.until("both rails again", |local| local.in_use().len() == 2);
    assert_eq!(local.transport(), "verbs");
    local.fill(3);
    post_all(&mut local);
    local.finish();
    local.verify(3, 0, size >> 20);
    for what in [EventKind::RailDown, EventKind::Switch, EventKind::RailUp] {
        eprintln!("{what:?}: {:#?}", local.events(what));
    }
    assert!(local.events(EventKind::RailDown).len() >= 2, "each with its reason");
    assert!(local.events(EventKind::Switch).iter().any(|event| event.starts_with("tcp")));
}
