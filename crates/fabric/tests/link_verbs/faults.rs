//! Rails that swallow packets, hold them up, or are torn out; peers that die.

use std::process::Command;
use std::time::{Duration, Instant};

use fabric::link::Endpoint;
use fabric::{Failure, Lane, Op};

use crate::local_end::{Near, shell, wire};
use crate::peer::{Peer, settings};

const SIZE: usize = 32 << 20;
const PART: usize = 1 << 20;

fn post_all(near: &mut Near) {
    let ops = (0..SIZE / PART).map(|at| {
        let begin = at * PART;
        Op::write(at as u64, near.source.slice(begin..begin + PART), near.window.at(begin as u64))
    });
    let ops: Vec<Op> = ops.collect();
    near.post(ops);
}

fn connected() -> (Peer, Near) {
    let peer = Peer::start(SIZE);
    let mut near = Near::connect(&peer, SIZE);
    near.until("both rails", |near| near.in_use().len() == 2);
    (peer, near)
}

#[test]
fn a_rail_that_swallows_everything_is_left() {
    let (_peer, mut near) = connected();
    near.fill(1);
    post_all(&mut near);
    near.until("a quarter", |near| near.done.len() >= SIZE / PART / 4);
    wire("loss 0 100%");
    near.finish();
    near.verify(1, 0, SIZE >> 20);
    // On a busy machine it may have stood still too, and come back.
    near.until("the whole rail alone", |near| near.in_use() == WHOLE);
    wire("loss 1 100%");
    near.fill(2);
    post_all(&mut near);
    near.finish();
    assert_eq!(near.lane(), "tcp");
    near.verify(2, 0, SIZE >> 20);
    wire("repair 0");
    wire("repair 1");
    near.until("both rails again", |near| near.in_use().len() == 2);
    near.fill(3);
    post_all(&mut near);
    near.finish();
    near.verify(3, 0, SIZE >> 20);
}

/// What was held up on a dead rail lands in the end, unless the target has fenced: it uses the memory for
/// something else at once, and nothing may touch that.
#[test]
fn packets_held_up_for_longer_than_the_retries_touch_nothing() {
    let (_peer, mut near) = connected();
    near.fill(1);
    wire("netem 0 delay 5s");
    post_all(&mut near);
    near.finish();
    near.verify(1, 0, SIZE >> 20);
    near.until("the whole rail alone", |near| near.in_use() == WHOLE);
    near.ask(b"reuse:  ", &[0, SIZE as u64]);
    let begun = Instant::now();
    near.until("the packets", |_| begun.elapsed() > Duration::from_secs(7));
    assert_eq!(near.ask(b"touched:", &[0, SIZE as u64]), [0], "bytes were written late");
    wire("repair 0");
    near.until("both rails again", |near| near.in_use().len() == 2);
}

#[test]
fn a_device_that_is_torn_out_is_left_and_its_return_is_noticed() {
    let (_peer, mut near) = connected();
    near.fill(1);
    post_all(&mut near);
    near.until("a quarter", |near| near.done.len() >= SIZE / PART / 4);
    // It waits until nobody has the device open.
    let mut tearing = Command::new("ip").args(["link", "del", "v0"]).spawn().unwrap();
    near.finish();
    near.verify(1, 0, SIZE >> 20);
    near.until("the whole rail alone", |near| near.in_use() == WHOLE);
    // The devices must be let go of, or they could not be made again.
    near.until("the devices to be gone", |_| {
        !std::path::Path::new("/sys/class/infiniband/rxe0").exists()
            && !std::path::Path::new("/sys/class/infiniband/rxe1").exists()
    });
    assert!(tearing.wait().unwrap().success());
    shell("wire restore 0");
    near.until("both rails again", |near| near.in_use().len() == 2);
    near.fill(2);
    post_all(&mut near);
    near.finish();
    near.verify(2, 0, SIZE >> 20);
}

#[test]
fn a_killed_peer_is_a_clear_error_and_its_successor_a_new_epoch() {
    let (mut peer, mut near) = connected();
    let before = near.window.clone();
    near.fill(1);
    post_all(&mut near);
    near.until("a quarter", |near| near.done.len() >= SIZE / PART / 4);
    peer.kill();
    let begun = Instant::now();
    // What was quick enough is over before the peer is seen to be gone.
    while near.in_flight > 0 || near.link.ended().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it hangs");
        near.step(Duration::from_millis(20));
    }
    let why = near.link.ended().expect("the link is over").to_owned();
    assert!(why.contains("peer"), "{why}");
    for (token, outcome) in near.done.drain(..) {
        let lost = [Failure::Unknown, Failure::PeerGone];
        assert!(
            outcome.is_ok() || lost.iter().any(|lost| outcome == Err(*lost)),
            "{token} {outcome:?}"
        );
    }
    // Everything comes back at once from now on.
    near.post([Op::write(7, near.source.slice(..8), before.at(0))]);
    assert_eq!(near.done.pop(), Some((7, Err(Failure::PeerGone))));
    let old = near.remote;
    let endpoint = near.endpoint.clone();
    drop(near);

    let peer = Peer::start(SIZE);
    let mut near = Near::connect_by(endpoint, &peer, SIZE);
    let error = near.link.import(&old).expect_err("a region of the peer's earlier life");
    assert!(error.to_string().contains("before the peer restarted"), "{error}");
    near.fill(2);
    post_all(&mut near);
    near.finish();
    near.verify(2, 0, SIZE >> 20);
}

#[test]
fn links_come_and_go_and_leave_nothing_behind() {
    let peer = Peer::start(SIZE);
    let endpoint = Endpoint::new(settings(["rxe0", "rxe2"])).unwrap();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut counts = Vec::new();
    for round in 0..4 {
        let mut near = Near::connect_by(endpoint.clone(), &peer, SIZE);
        near.fill(round);
        post_all(&mut near);
        near.finish();
        drop(near);
        // What ends lanes is done by threads.
        std::thread::sleep(Duration::from_secs(2));
        counts.push(open());
    }
    assert_eq!(counts[1], counts[3], "descriptors after each link: {counts:?}");
}

/// The rail that nothing is done to.
const WHOLE: [&str; 1] = ["rxe2/1–rxe3/1"];
