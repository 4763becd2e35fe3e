//! Peers that close or crash: every operation completes, with a reason.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fabric::link::{EventKind, Link, Transport};
use fabric::{Completion, ErrorKind, Failure, Lane, Op, Rights, Work};

use crate::pair::{LIMIT, LinkPair, anywhere, post};
use crate::peer::{LocalEnd, Peer};

const CLASSES: [Transport; 2] = [Transport::Shm, Transport::Tcp];

#[test]
fn when_one_end_is_dropped_all_operations_of_the_other_complete() {
    for transport in CLASSES {
        let mut pair = LinkPair::over(transport);
        let here = pair.region(0, 1 << 20, Rights::NONE);
        let there = pair.region(1, 1 << 20, Rights::ALL);
        let window = pair.grant(&there);
        let add = Work::FetchAdd { old: here.slice(..8), at: window.at(0), add: 1 };
        // More messages than the peer stores, and one of every other operation.
        let sends = (100..400).map(|op_id| Op::send(op_id, here.slice(..8)));
        let ops = [
            Op::receive(1, here.slice(..8)),
            Op::read(2, here.slice(..), window.at(0)),
            Op::write_imm(3, here.slice(..), window.at(0), 7),
            Op { op_id: 4, work: add },
        ];
        post(&mut pair.initiator, sends.chain(ops));
        let LinkPair { mut initiator, listener, accepted, ends } = pair;
        drop(accepted);
        let done = all(&mut initiator, 304);
        for completion in &done {
            let expected = match completion.outcome {
                Ok(_) | Err(Failure::PeerGone) => true,
                Err(Failure::Unknown) => {
                    !matches!(completion.work, Work::Read { .. } | Work::Receive { .. })
                }
                Err(_) => false,
            };
            assert!(expected, "{transport:?}: {completion:?}");
        }
        assert!(done.iter().any(|completion| completion.op_id == 1 && completion.outcome.is_err()));
        assert_over(&mut initiator, "the peer ended the link: closed by its owner");
        drop((initiator, listener, ends));
    }
}

/// The end of the lane and the goodbye arrive separately, while the other end polls.
#[test]
fn a_closed_link_is_no_failure_of_a_rail() {
    let transports = [
        Transport::Shm,
        Transport::Tcp,
        #[cfg(feature = "external-tests")]
        Transport::Ofi,
    ];
    for transport in transports {
        for _ in 0..20 {
            let LinkPair { initiator, mut accepted, listener, ends } = LinkPair::over(transport);
            let polling = std::thread::spawn(move || {
                let started = Instant::now();
                while accepted.ended().is_none() {
                    assert!(started.elapsed() < LIMIT, "the goodbye does not arrive");
                    accepted.poll(&mut Vec::new());
                }
                accepted.report().status()
            });
            drop(initiator);
            let status = polling.join().unwrap();
            let count = |what: EventKind| status.counts[what.name()];
            let counts = [EventKind::RailDown, EventKind::Ended, EventKind::Closed].map(count);
            assert_eq!(counts, [0, 0, 1], "{transport:?}: {:#?}", status.events);
            drop((listener, ends));
        }
    }
}

/// Waits for all completions, each once.
fn all(link: &mut Link, count: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    let started = Instant::now();
    while done.len() < count {
        assert!(started.elapsed() < LIMIT, "{} of {count}: {:?}", done.len(), link.ended());
        fabric::wait(link, &mut done, LIMIT);
    }
    let mut op_ids: Vec<u64> = done.iter().map(|completion| completion.op_id).collect();
    op_ids.sort_unstable();
    op_ids.dedup();
    assert_eq!(op_ids.len(), count, "each once");
    done
}

/// Operations posted to an ended link fail immediately.
fn assert_over(link: &mut Link, why: &str) {
    let ended = link.ended().expect("it has ended").to_owned();
    assert!(ended.contains(why), "{ended}");
    let status = link.report().status();
    assert!(status.rails.iter().all(|rail| rail.state == "ended"), "{:?}", status.rails);
    assert_eq!((status.state, status.why), ("ended", ended.clone()));
    assert_eq!(link.stats().ended(), Some(Failure::PeerGone));
    post(link, [Op::receive(1, fabric::Slices::EMPTY), Op::send(2, fabric::Slices::EMPTY)]);
    let mut done = Vec::new();
    while done.len() < 2 {
        assert!(fabric::wait(link, &mut done, LIMIT) > 0, "it hangs");
    }
    for completion in &done {
        let expected = match completion.outcome {
            Err(Failure::PeerGone) => true,
            // A message sent before the end still waits for a longer receive.
            Err(Failure::TooLong) => completion.op_id == 1,
            _ => false,
        };
        assert!(expected, "{completion:?}, {ended}");
    }
    assert_eq!(fabric::wait(link, &mut done, Duration::from_millis(50)), 0);
}

#[test]
fn closing_a_link_completes_all_operations() {
    for transport in CLASSES {
        let mut pair = LinkPair::over(transport);
        let here = pair.region(0, 8, Rights::NONE);
        let sends = (100..400).map(|op_id| Op::send(op_id, here.slice(..8)));
        post(&mut pair.initiator, sends.chain([Op::receive(1, here.slice(..8))]));
        pair.initiator.close();
        let done = all(&mut pair.initiator, 301);
        let flushed = |done: &Completion| matches!(done.outcome, Ok(_) | Err(Failure::Flushed));
        assert!(done.iter().all(flushed), "{done:?}");
        assert_eq!(pair.initiator.ended(), Some("closed by this end"));
        let region = pair.region(0, 8, Rights::ALL);
        assert_eq!(pair.initiator.grant(&region).unwrap_err().kind(), ErrorKind::Gone);
        pair.initiator.close();
    }
}

fn a_killed_process_is_lost_and_its_successor_is_another_peer(transport: Transport) {
    let transports = [transport];
    let mut peer = Peer::start(&transports, anywhere());
    let mut local = LocalEnd::connect(&transports, peer.address);
    local.exercise();
    let window = local.link.import(&local.remote).unwrap();
    let source = local.source.clone();
    post(&mut local.link, [Op::receive(1, source.slice(..8))]);
    peer.kill();
    // A sleeping caller is woken.
    let mut done = Vec::new();
    assert_eq!(fabric::wait(&mut local.link, &mut done, LIMIT), 1, "{:?}", local.link.ended());
    assert_eq!(done[0].outcome, Err(Failure::PeerGone));
    assert_over(&mut local.link, "peer");
    let late = local.one(Op::write(3, source.slice(..8), window.at(0)));
    assert_eq!(late.outcome, Err(Failure::PeerGone));

    // Another process listens on the same address.
    let address: SocketAddr = peer.address;
    drop(peer);
    let peer = Peer::start(&transports, address);
    let old = local.remote;
    let endpoint = local.endpoint.clone();
    drop(local);
    let mut local = LocalEnd::connect_by(endpoint, peer.address);
    let error = local.link.import(&old).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("before the peer restarted"), "{error}");
    let stale = local.one(Op::write(4, source.slice(..8), window.at(0)));
    assert_eq!(stale.outcome, Err(Failure::Unsupported), "a window of another link");
    local.exercise();
}

#[test]
fn a_killed_process_and_its_successor_over_shared_memory() {
    a_killed_process_is_lost_and_its_successor_is_another_peer(Transport::Shm);
}

#[test]
fn a_killed_process_and_its_successor_over_tcp() {
    a_killed_process_is_lost_and_its_successor_is_another_peer(Transport::Tcp);
}

/// Killed during many operations: each completes once.
#[test]
fn when_a_process_is_killed_all_operations_complete() {
    for transport in CLASSES {
        let mut peer = Peer::start(&[transport], anywhere());
        let mut local = LocalEnd::connect(&[transport], peer.address);
        let window = local.link.import(&local.remote).unwrap();
        let source = local.source.clone();
        let ops = (0..500).map(|op_id| match op_id % 4 {
            0 => Op::write(op_id, source.slice(..), window.at(0)),
            1 => Op::read(op_id, source.slice(..), window.at(0)),
            2 => Op::send(op_id, source.slice(..64)),
            _ => Op::write_imm(op_id, source.slice(..4096), window.at(0), 1),
        });
        let ops: Vec<Op> = ops.collect();
        post(&mut local.link, ops);
        let mut done = Vec::new();
        while done.len() < 20 {
            fabric::wait(&mut local.link, &mut done, LIMIT);
        }
        peer.kill();
        let rest = all(&mut local.link, 500 - done.len());
        let lost = rest.iter().filter(|completion| completion.outcome.is_err());
        for completion in lost {
            let outcome = completion.outcome;
            assert!(
                matches!(outcome, Err(Failure::PeerGone | Failure::Unknown)),
                "{transport:?} {completion:?}"
            );
        }
        assert_over(&mut local.link, "");
    }
}
