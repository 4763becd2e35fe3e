//! Tests specific to libfabric: choosing providers, shared regions, and incompatible peers.
#![allow(missing_docs, reason = "a test")]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fabric::ofi::{Config, Domain, choose, list_providers};
use fabric::{
    Completion, Done, ErrorKind, Fabric, Failure, Lane, Memory, Op, Pages, Region, Rights, Side,
    wait,
};

const LIMIT: Duration = Duration::from_secs(30);

fn open(provider: &str) -> Domain {
    let choice = choose(&list_providers(None).unwrap(), Some(provider)).unwrap();
    let address = (provider != "shm").then_some([127, 0, 0, 1].into());
    Domain::open(&choice, Config { address, ..Config::default() }).unwrap()
}

fn connect(a: &Domain, b: &Domain) -> [Box<dyn Lane>; 2] {
    let (ours, theirs) =
        (a.prepare_lane(Side::Dial).unwrap(), b.prepare_lane(Side::Accept).unwrap());
    let (to_theirs, to_ours) = (ours.offer(), theirs.offer());
    [ours.connect(&to_ours, LIMIT).unwrap(), theirs.connect(&to_theirs, LIMIT).unwrap()]
}

/// Runs an operation on the first lane, while polling both.
fn run(lanes: &mut [Box<dyn Lane>; 2], op: Op) -> Completion {
    let (mut done, mut others) = (Vec::new(), Vec::new());
    lanes[0].post(&mut VecDeque::from([op]));
    while done.is_empty() {
        lanes[0].poll(&mut done);
        lanes[1].poll(&mut others);
    }
    done.remove(0)
}

fn memory() -> Memory {
    Memory::allocate(4096, Pages::Plain).unwrap()
}

#[test]
fn providers_are_listed() {
    let listed = list_providers(None).unwrap();
    assert!(listed.version >= (1, 9) && listed.abi.starts_with("FABRIC_1."), "{listed:?}");
    assert!(listed.file.is_absolute() && listed.file.exists(), "{listed:?}");
    let here = |name: &str| listed.providers.iter().any(|provider| provider.name.starts_with(name));
    assert!(here("tcp") && here("shm"), "{listed:?}");
    let refusal = choose(&listed, Some("nowhere")).unwrap_err().to_string();
    assert!(refusal.contains("provider nowhere") && refusal.contains("shm"), "{refusal}");
}

#[test]
fn ofi_opens_by_name() {
    let fabric = fabric::open("ofi").unwrap();
    let lane = fabric.prepare_lane(Side::Dial).unwrap();
    assert!(!lane.offer().is_empty());
}

#[test]
fn a_peer_of_another_provider_is_refused_with_a_reason() {
    let (tcp, shm) = (open("tcp"), open("shm"));
    let offer = shm.prepare_lane(Side::Accept).unwrap().offer();
    let error = tcp.prepare_lane(Side::Dial).unwrap().connect(&offer, LIMIT).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("the peer uses provider shm, this end tcp"), "{error}");
}

fn a_shared_region_is_used_while_it_is_attached(provider: &str) {
    let (a, b) = (open(provider), open(provider));
    let mut lanes = connect(&a, &b);
    let from = Region::shared(&memory(), Rights::NONE);
    let to = Region::shared(&memory(), Rights::ALL);
    assert_eq!(lanes[1].grant(&to).unwrap_err().kind(), ErrorKind::Misuse, "not attached yet");
    a.attach(&from).unwrap();
    b.attach(&to).unwrap();
    b.attach(&to).expect("attaching twice is allowed");
    let granted = lanes[1].grant(&to).unwrap();
    let window = lanes[0].import(&granted).unwrap();
    from.memory().store(0, 77);
    let op = |op_id| Op::write(op_id, from.slice(..8), window.at(8));
    assert_eq!(run(&mut lanes, op(1)).outcome, Ok(Done::Placed));
    assert_eq!(to.memory().load(8), 77);
    a.detach(&from);
    assert_eq!(run(&mut lanes, op(2)).outcome, Err(Failure::Unsupported));
    a.attach(&from).unwrap();
    assert_eq!(run(&mut lanes, op(3)).outcome, Ok(Done::Placed));
    drop((lanes, a, b));
    let other = open(provider);
    other.attach(&to).expect("the region outlives its domains");
    let elsewhere = fabric::open("tcp").unwrap().register(&memory(), Rights::ALL).unwrap();
    assert_eq!(other.attach(&elsewhere).unwrap_err().kind(), ErrorKind::Misuse);
}

#[test]
fn a_shared_region_is_used_while_it_is_attached_to_tcp() {
    a_shared_region_is_used_while_it_is_attached("tcp");
}

#[test]
fn a_shared_region_is_used_while_it_is_attached_to_shm() {
    a_shared_region_is_used_while_it_is_attached("shm");
}

/// Operations that the provider has are finished or cancelled; queued ones cannot be started. All are returned, and the provider
/// never uses a released registration.
fn a_region_detached_in_flight_returns_all_operations(provider: &str) {
    let (a, b) = (open(provider), open(provider));
    let long = Memory::allocate(1 << 20, Pages::Plain).unwrap();
    let to = b.register(&long, Rights::ALL).unwrap();
    for round in 0..10 {
        let mut lanes = connect(&a, &b);
        let granted = lanes[1].grant(&to).unwrap();
        let window = lanes[0].import(&granted).unwrap();
        let from = Region::shared(&Memory::allocate(1 << 20, Pages::Plain).unwrap(), Rights::NONE);
        a.attach(&from).unwrap();
        let mut ops: VecDeque<Op> =
            (0..200).map(|op_id| Op::write(op_id, from.slice(..), window.at(0))).collect();
        lanes[0].post(&mut ops);
        let (mut done, mut others) = (Vec::new(), Vec::new());
        for _ in 0..round * 20 {
            lanes[0].poll(&mut done);
            lanes[1].poll(&mut others);
        }
        a.detach(&from);
        let started = Instant::now();
        while done.len() < 200 {
            assert!(started.elapsed() < LIMIT, "{} of 200 were returned", done.len());
            lanes[0].post(&mut ops);
            lanes[0].poll(&mut done);
            lanes[1].poll(&mut others);
        }
        let is_expected = |one: &Completion| {
            use Failure::{Flushed, Local, Unsupported};
            matches!(one.outcome, Ok(Done::Placed) | Err(Flushed | Local | Unsupported))
        };
        assert!(done.iter().all(is_expected), "{:?}", done.iter().find(|one| !is_expected(one)));
    }
}

#[test]
fn a_region_detached_in_flight_over_tcp() {
    a_region_detached_in_flight_returns_all_operations("tcp");
}

#[test]
fn a_region_detached_in_flight_over_shm() {
    a_region_detached_in_flight_returns_all_operations("shm");
}

/// An end that sleeps between messages, on an event descriptor or a timer.
fn a_sleeping_lane_is_woken(provider: &str, by_timer: bool) {
    let domain = open(provider);
    let [mut near, mut far] = connect(&domain, &domain);
    assert_eq!((near.caps().transport, near.caps().wakes_by_timer), ("ofi", by_timer));
    let [from, into] = [(); 2].map(|()| domain.register(&memory(), Rights::NONE).unwrap());
    let receiver = std::thread::spawn(move || {
        let (mut received, mut done) = (0, Vec::new());
        loop {
            far.post(&mut VecDeque::from([Op::receive(1, into.slice(..8))]));
            while done.is_empty() {
                wait(&mut *far, &mut done, LIMIT);
            }
            match done.remove(0).outcome {
                Ok(Done::Received { length: 8, imm: None }) => received += 1,
                other => return (received, other),
            }
        }
    });
    let mut done = Vec::new();
    for round in 0..50 {
        near.post(&mut VecDeque::from([Op::send(round, from.slice(..8))]));
        while done.is_empty() {
            wait(&mut *near, &mut done, LIMIT);
        }
        assert_eq!(done.remove(0).outcome, Ok(Done::Placed));
    }
    drop(near);
    let (received, end) = receiver.join().unwrap();
    assert_eq!((received, end), (50, Err(Failure::PeerGone)), "the receiver sees the end");
}

#[test]
fn a_lane_over_tcp_sleeps_on_a_descriptor() {
    a_sleeping_lane_is_woken("tcp", false);
}

#[test]
fn a_lane_over_shm_wakes_by_timer() {
    a_sleeping_lane_is_woken("shm", true);
}
