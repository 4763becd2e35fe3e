//! Links between two processes over two real wires, which are cut, held up and torn out while they are in
//! use. Needs the lab, and `--test-threads=1`, since the wires are shared.
#![allow(missing_docs, reason = "a test")]

mod faults;
mod gids;
mod local_end;
mod peer;
mod toggled_rails;

use fabric::Op;
use fabric::link::Happening;

use local_end::{Near, wire};
use peer::Peer;

/// What is in flight when things go wrong. `WIRELANE_TEST_MIB` makes it more.
fn size() -> usize {
    let mib = std::env::var("WIRELANE_TEST_MIB").ok().and_then(|mib| mib.parse().ok());
    mib.unwrap_or(256) << 20
}

const PART: usize = 16 << 20;

/// Everything there is to write, in large operations.
fn post_all(near: &mut Near) {
    let ops = (0..near.source.len() / PART).map(|at| {
        let begin = at * PART;
        Op::write(at as u64, near.source.slice(begin..begin + PART), near.window.at(begin as u64))
    });
    let ops: Vec<Op> = ops.collect();
    near.post(ops);
}

fn placed(near: &Near, share: usize) -> bool {
    near.done.len() * share >= near.source.len() / PART
}

#[test]
fn a_cut_rail_is_left_and_then_both_and_then_they_are_back() {
    let size = size();
    let peer = Peer::start(size);
    let mut near = Near::connect(&peer, size);
    near.until("both rails", |near| near.in_use().len() == 2);
    near.fill(1);
    post_all(&mut near);
    near.until("a quarter", |near| placed(near, 4));
    wire("cut 0");
    near.finish();
    // Emulated on a busy machine the whole rail may have stood still for its time-out, too: then it comes back.
    near.until("the whole rail alone", |near| near.in_use() == ["rxe2/1–rxe3/1"]);
    near.verify(1, 0, size >> 20);
    eprintln!("one rail: {:?}", near.events(Happening::RailDown));

    near.fill(2);
    post_all(&mut near);
    near.until("a quarter", |near| placed(near, 4));
    wire("cut 1");
    near.finish();
    assert_eq!(near.lane(), "tcp");
    near.verify(2, 0, size >> 20);

    wire("repair 0");
    wire("repair 1");
    near.until("both rails again", |near| near.in_use().len() == 2);
    assert_eq!(near.lane(), "verbs");
    near.fill(3);
    post_all(&mut near);
    near.finish();
    near.verify(3, 0, size >> 20);
    for what in [Happening::RailDown, Happening::Switch, Happening::RailUp] {
        eprintln!("{what:?}: {:#?}", near.events(what));
    }
    assert!(near.events(Happening::RailDown).len() >= 2, "each with its reason");
    assert!(near.events(Happening::Switch).iter().any(|event| event.starts_with("tcp")));
}
