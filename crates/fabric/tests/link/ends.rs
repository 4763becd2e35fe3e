//! Peers that end, well or badly: everything comes back, with a reason, and nobody waits for ever.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fabric::link::{Class, Link};
use fabric::{Completion, Failure, Kind, Lane, Op, Rights, Work};

use crate::pair::{LIMIT, Two, anywhere, post};
use crate::peer::{Near, Peer};

const CLASSES: [Class; 2] = [Class::Shm, Class::Tcp];

#[test]
fn when_one_end_is_dropped_the_other_gets_everything_back_with_the_reason() {
    for class in CLASSES {
        let mut two = Two::over(class);
        let here = two.region(0, 1 << 20, Rights::NONE);
        let there = two.region(1, 1 << 20, Rights::ALL);
        let window = two.grant(&there);
        let add = Work::FetchAdd { old: here.slice(..8), at: window.at(0), add: 1 };
        // More messages than the peer keeps, and one of everything else.
        let sends = (100..400).map(|token| Op::send(token, here.slice(..8)));
        let ops = [
            Op::receive(1, here.slice(..8)),
            Op::read(2, here.slice(..), window.at(0)),
            Op::write_imm(3, here.slice(..), window.at(0), 7),
            Op { token: 4, work: add },
        ];
        post(&mut two.dialler, sends.chain(ops));
        let Two { mut dialler, listener, acceptor, ends } = two;
        drop(acceptor);
        let done = all(&mut dialler, 304);
        for completion in &done {
            let expected = match completion.outcome {
                Ok(_) | Err(Failure::PeerGone) => true,
                Err(Failure::Unknown) => {
                    !matches!(completion.work, Work::Read { .. } | Work::Receive { .. })
                }
                Err(_) => false,
            };
            assert!(expected, "{class:?}: {completion:?}");
        }
        assert!(done.iter().any(|completion| completion.token == 1 && completion.outcome.is_err()));
        assert_over(&mut dialler, "the peer ended the link: it was closed");
        drop((dialler, listener, ends));
    }
}

/// All that is in flight, each once.
fn all(link: &mut Link, count: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    let begun = Instant::now();
    while done.len() < count {
        assert!(begun.elapsed() < LIMIT, "{} of {count}: {:?}", done.len(), link.ended());
        fabric::wait(link, &mut done, LIMIT);
    }
    let mut tokens: Vec<u64> = done.iter().map(|completion| completion.token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), count, "each once");
    done
}

/// What is posted to a link that is over comes back at once.
fn assert_over(link: &mut Link, why: &str) {
    let ended = link.ended().expect("it is over").to_owned();
    assert!(ended.contains(why), "{ended}");
    let explained = link.report().explain();
    assert!(explained.rails.iter().all(|rail| rail.state == "ended"), "{:?}", explained.rails);
    assert_eq!((explained.state, explained.why), ("ended", ended.clone()));
    assert_eq!(link.stats().ended(), Some(Failure::PeerGone));
    post(link, [Op::receive(1, fabric::Pieces::EMPTY), Op::send(2, fabric::Pieces::EMPTY)]);
    let mut done = Vec::new();
    while done.len() < 2 {
        assert!(fabric::wait(link, &mut done, LIMIT) > 0, "it hangs");
    }
    for completion in &done {
        let expected = match completion.outcome {
            Err(Failure::PeerGone) => true,
            // What the peer said before the end is still there for one with room.
            Err(Failure::TooLong) => completion.token == 1,
            _ => false,
        };
        assert!(expected, "{completion:?}, {ended}");
    }
    assert_eq!(fabric::wait(link, &mut done, Duration::from_millis(50)), 0);
}

#[test]
fn a_link_that_is_closed_here_gives_everything_back() {
    for class in CLASSES {
        let mut two = Two::over(class);
        let here = two.region(0, 8, Rights::NONE);
        let sends = (100..400).map(|token| Op::send(token, here.slice(..8)));
        post(&mut two.dialler, sends.chain([Op::receive(1, here.slice(..8))]));
        two.dialler.close();
        let done = all(&mut two.dialler, 301);
        let flushed = |done: &Completion| matches!(done.outcome, Ok(_) | Err(Failure::Flushed));
        assert!(done.iter().all(flushed), "{done:?}");
        assert_eq!(two.dialler.ended(), Some("it was closed on this side"));
        let region = two.region(0, 8, Rights::ALL);
        assert_eq!(two.dialler.grant(&region).unwrap_err().kind(), Kind::Gone);
        two.dialler.close();
    }
}

fn a_killed_process_is_a_clear_error_and_its_successor_another_one(class: Class) {
    let classes = [class];
    let mut peer = Peer::start(&classes, anywhere());
    let mut near = Near::connect(&classes, peer.address);
    near.exercise();
    let window = near.link.import(&near.remote).unwrap();
    let source = near.source.clone();
    post(&mut near.link, [Op::receive(1, source.slice(..8))]);
    peer.kill();
    // It is noticed by one who sleeps and does nothing.
    let mut done = Vec::new();
    assert_eq!(fabric::wait(&mut near.link, &mut done, LIMIT), 1, "{:?}", near.link.ended());
    assert_eq!(done[0].outcome, Err(Failure::PeerGone));
    assert_over(&mut near.link, "peer");
    let late = near.one(Op::write(3, source.slice(..8), window.at(0)));
    assert_eq!(late.outcome, Err(Failure::PeerGone));

    // Another process takes its place, at the same address.
    let address: SocketAddr = peer.address;
    drop(peer);
    let peer = Peer::start(&classes, address);
    let old = near.remote;
    let endpoint = near.endpoint.clone();
    drop(near);
    let mut near = Near::connect_by(endpoint, peer.address);
    let error = near.link.import(&old).unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    assert!(error.to_string().contains("before the peer restarted"), "{error}");
    let stale = near.one(Op::write(4, source.slice(..8), window.at(0)));
    assert_eq!(stale.outcome, Err(Failure::Unsupported), "a window of another link");
    near.exercise();
}

#[test]
fn a_killed_process_and_its_successor_over_shared_memory() {
    a_killed_process_is_a_clear_error_and_its_successor_another_one(Class::Shm);
}

#[test]
fn a_killed_process_and_its_successor_over_tcp() {
    a_killed_process_is_a_clear_error_and_its_successor_another_one(Class::Tcp);
}

/// Killed in the middle of many operations: none is lost, none is said to have happened without its bytes
/// having left.
#[test]
fn a_process_killed_at_work_gives_everything_back() {
    for class in CLASSES {
        let mut peer = Peer::start(&[class], anywhere());
        let mut near = Near::connect(&[class], peer.address);
        let window = near.link.import(&near.remote).unwrap();
        let source = near.source.clone();
        let ops = (0..500).map(|token| match token % 4 {
            0 => Op::write(token, source.slice(..), window.at(0)),
            1 => Op::read(token, source.slice(..), window.at(0)),
            2 => Op::send(token, source.slice(..64)),
            _ => Op::write_imm(token, source.slice(..4096), window.at(0), 1),
        });
        let ops: Vec<Op> = ops.collect();
        post(&mut near.link, ops);
        let mut done = Vec::new();
        while done.len() < 20 {
            fabric::wait(&mut near.link, &mut done, LIMIT);
        }
        peer.kill();
        let rest = all(&mut near.link, 500 - done.len());
        let lost = rest.iter().filter(|completion| completion.outcome.is_err());
        for completion in lost {
            let outcome = completion.outcome;
            assert!(
                matches!(outcome, Err(Failure::PeerGone | Failure::Unknown)),
                "{class:?} {completion:?}"
            );
        }
        assert_over(&mut near.link, "");
    }
}
