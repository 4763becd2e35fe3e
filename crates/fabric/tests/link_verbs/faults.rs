//! Rails that lose packets, delay them, or are removed; peers that die.

use std::process::Command;
use std::time::{Duration, Instant};

use fabric::link::Endpoint;
use fabric::{Failure, Lane, Op};

use crate::local_end::{LocalEnd, shell, wire};
use crate::peer::{Peer, settings};

const SIZE: usize = 32 << 20;
const PART: usize = 1 << 20;

fn post_all(local: &mut LocalEnd) {
    let ops = (0..SIZE / PART).map(|at| {
        let begin = at * PART;
        Op::write(at as u64, local.source.slice(begin..begin + PART), local.window.at(begin as u64))
    });
    let ops: Vec<Op> = ops.collect();
    local.post(ops);
}

fn connected() -> (Peer, LocalEnd) {
    let peer = Peer::start(SIZE);
    let mut local = LocalEnd::connect(&peer, SIZE);
    local.until("both rails", |local| local.in_use().len() == 2);
    (peer, local)
}

#[test]
fn a_rail_that_loses_all_packets_is_left() {
    let (_peer, mut local) = connected();
    local.fill(1);
    post_all(&mut local);
    local.until("a quarter", |local| local.done.len() >= SIZE / PART / 4);
    wire("loss 0 100%");
    local.finish();
    local.verify(1, 0, SIZE >> 20);
    // On a busy machine the other rail may have timed out too, and come back.
    local.until("the other rail alone", |local| local.in_use() == OTHER);
    wire("loss 1 100%");
    local.fill(2);
    post_all(&mut local);
    local.finish();
    assert_eq!(local.transport(), "tcp");
    local.verify(2, 0, SIZE >> 20);
    wire("repair 0");
    wire("repair 1");
    local.until("both rails again", |local| local.in_use().len() == 2);
    local.fill(3);
    post_all(&mut local);
    local.finish();
    local.verify(3, 0, SIZE >> 20);
}

/// Delayed packets of a dead rail must not take effect after the fence: the target reuses the memory
/// immediately, and nothing may change it.
#[test]
fn packets_delayed_for_longer_than_the_retries_have_no_effect() {
    let (_peer, mut local) = connected();
    local.fill(1);
    wire("netem 0 delay 5s");
    post_all(&mut local);
    local.finish();
    local.verify(1, 0, SIZE >> 20);
    local.until("the other rail alone", |local| local.in_use() == OTHER);
    local.ask(b"reuse:  ", &[0, SIZE as u64]);
    let started = Instant::now();
    local.until("the delayed packets", |_| started.elapsed() > Duration::from_secs(7));
    assert_eq!(local.ask(b"touched:", &[0, SIZE as u64]), [0], "bytes were written late");
    wire("repair 0");
    local.until("both rails again", |local| local.in_use().len() == 2);
}

#[test]
fn a_removed_device_is_left_and_its_return_is_noticed() {
    let (_peer, mut local) = connected();
    local.fill(1);
    post_all(&mut local);
    local.until("a quarter", |local| local.done.len() >= SIZE / PART / 4);
    // It waits until no process has the device open.
    let mut removal = Command::new("ip").args(["link", "del", "v0"]).spawn().unwrap();
    local.finish();
    local.verify(1, 0, SIZE >> 20);
    local.until("the other rail alone", |local| local.in_use() == OTHER);
    // The devices must be released before they can be created again.
    local.until("the devices to be gone", |_| {
        !std::path::Path::new("/sys/class/infiniband/rxe0").exists()
            && !std::path::Path::new("/sys/class/infiniband/rxe1").exists()
    });
    assert!(removal.wait().unwrap().success());
    shell("wire restore 0");
    local.until("both rails again", |local| local.in_use().len() == 2);
    local.fill(2);
    post_all(&mut local);
    local.finish();
    local.verify(2, 0, SIZE >> 20);
}

#[test]
fn a_killed_peer_is_lost_and_its_successor_has_a_new_epoch() {
    let (mut peer, mut local) = connected();
    let before = local.window.clone();
    local.fill(1);
    post_all(&mut local);
    local.until("a quarter", |local| local.done.len() >= SIZE / PART / 4);
    peer.kill();
    let started = Instant::now();
    // Some operations complete before the peer is detected as lost.
    while local.in_flight > 0 || local.link.ended().is_none() {
        assert!(started.elapsed() < Duration::from_secs(60), "it hangs");
        local.step(Duration::from_millis(20));
    }
    let why = local.link.ended().expect("the link has ended").to_owned();
    assert!(why.contains("peer"), "{why}");
    for (op_id, outcome) in local.done.drain(..) {
        let lost = [Failure::Unknown, Failure::PeerGone];
        assert!(
            outcome.is_ok() || lost.iter().any(|lost| outcome == Err(*lost)),
            "{op_id} {outcome:?}"
        );
    }
    // Operations fail immediately from now on.
    local.post([Op::write(7, local.source.slice(..8), before.at(0))]);
    assert_eq!(local.done.pop(), Some((7, Err(Failure::PeerGone))));
    let old = local.remote;
    let endpoint = local.endpoint.clone();
    drop(local);

    let peer = Peer::start(SIZE);
    let mut local = LocalEnd::connect_by(endpoint, &peer, SIZE);
    let error = local.link.import(&old).expect_err("a region of the peer's earlier epoch");
    assert!(error.to_string().contains("before the peer restarted"), "{error}");
    local.fill(2);
    post_all(&mut local);
    local.finish();
    local.verify(2, 0, SIZE >> 20);
}

#[test]
fn closed_links_leave_no_descriptors() {
    let peer = Peer::start(SIZE);
    let endpoint = Endpoint::new(settings(["rxe0", "rxe2"])).unwrap();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut counts = Vec::new();
    for round in 0..4 {
        let mut local = LocalEnd::connect_by(endpoint.clone(), &peer, SIZE);
        local.fill(round);
        post_all(&mut local);
        local.finish();
        drop(local);
        // Lanes are closed by threads.
        std::thread::sleep(Duration::from_secs(2));
        counts.push(open());
    }
    assert_eq!(counts[1], counts[3], "descriptors after each link: {counts:?}");
}

/// The rail without faults.
const OTHER: [&str; 1] = ["rxe2/1–rxe3/1"];
