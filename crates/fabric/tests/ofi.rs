//! What is particular to libfabric: choosing, sharing regions, and peers that do not fit.
#![allow(missing_docs, reason = "a test")]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fabric::ofi::{Config, Domain, choose, survey};
use fabric::{
    Completion, Done, Fabric, Failure, Kind, Lane, Memory, Op, Pages, Region, Rights, Side, wait,
};

const LIMIT: Duration = Duration::from_secs(30);

fn open(provider: &str) -> Domain {
    let choice = choose(&survey(None).unwrap(), Some(provider)).unwrap();
    let address = (provider != "shm").then_some([127, 0, 0, 1].into());
    Domain::open(&choice, Config { address, ..Config::default() }).unwrap()
}

fn connect(a: &Domain, b: &Domain) -> [Box<dyn Lane>; 2] {
    let (ours, theirs) =
        (a.prepare_lane(Side::Dial).unwrap(), b.prepare_lane(Side::Accept).unwrap());
    let (to_theirs, to_ours) = (ours.offer(), theirs.offer());
    [ours.connect(&to_ours, LIMIT).unwrap(), theirs.connect(&to_theirs, LIMIT).unwrap()]
}

/// Does an operation of the first lane's, while the other one moves too.
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
fn the_survey_tells_what_is_here() {
    let survey = survey(None).unwrap();
    assert!(survey.version >= (1, 9) && survey.abi.starts_with("FABRIC_1."), "{survey:?}");
    assert!(survey.file.is_absolute() && survey.file.exists(), "{survey:?}");
    let here = |name: &str| survey.providers.iter().any(|provider| provider.name.starts_with(name));
    assert!(here("tcp") && here("shm"), "{survey:?}");
    let refusal = choose(&survey, Some("nowhere")).unwrap_err().to_string();
    assert!(refusal.contains("no provider nowhere") && refusal.contains("shm"), "{refusal}");
}

#[test]
fn it_opens_by_its_name() {
    let fabric = fabric::open("ofi").unwrap();
    let lane = fabric.prepare_lane(Side::Dial).unwrap();
    assert!(!lane.offer().is_empty());
}

#[test]
fn a_peer_of_another_provider_is_refused_with_words() {
    let (tcp, shm) = (open("tcp"), open("shm"));
    let offer = shm.prepare_lane(Side::Accept).unwrap().offer();
    let error = tcp.prepare_lane(Side::Dial).unwrap().connect(&offer, LIMIT).err().unwrap();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("the peer has shm, and we have tcp"), "{error}");
}

fn a_shared_region_is_used_while_it_is_attached(provider: &str) {
    let (a, b) = (open(provider), open(provider));
    let mut lanes = connect(&a, &b);
    let from = Region::shared(&memory(), Rights::NONE);
    let to = Region::shared(&memory(), Rights::ALL);
    assert_eq!(lanes[1].grant(&to).unwrap_err().kind(), Kind::Misuse, "not attached yet");
    a.attach(&from).unwrap();
    b.attach(&to).unwrap();
    b.attach(&to).expect("once is enough, twice is no harm");
    let granted = lanes[1].grant(&to).unwrap();
    let window = lanes[0].import(&granted).unwrap();
    from.memory().store(0, 77);
    let op = |token| Op::write(token, from.slice(..8), window.at(8));
    assert_eq!(run(&mut lanes, op(1)).outcome, Ok(Done::Placed));
    assert_eq!(to.memory().load(8), 77);
    a.detach(&from);
    assert_eq!(run(&mut lanes, op(2)).outcome, Err(Failure::Unsupported));
    a.attach(&from).unwrap();
    assert_eq!(run(&mut lanes, op(3)).outcome, Ok(Done::Placed));
    drop((lanes, a, b));
    let other = open(provider);
    other.attach(&to).expect("the memory outlives its domains");
    let elsewhere = fabric::open("tcp").unwrap().register(&memory(), Rights::ALL).unwrap();
    assert_eq!(other.attach(&elsewhere).unwrap_err().kind(), Kind::Misuse);
}

#[test]
fn a_shared_region_is_used_while_it_is_attached_to_tcp() {
    a_shared_region_is_used_while_it_is_attached("tcp");
}

#[test]
fn a_shared_region_is_used_while_it_is_attached_to_shm() {
    a_shared_region_is_used_while_it_is_attached("shm");
}

/// What the provider has is finished or cut off; what waits for it cannot be begun. All of it comes back, and the provider
/// never works with a registration that is gone.
fn a_region_detached_in_flight_harms_nobody(provider: &str) {
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
            (0..200).map(|token| Op::write(token, from.slice(..), window.at(0))).collect();
        lanes[0].post(&mut ops);
        let (mut done, mut others) = (Vec::new(), Vec::new());
        for _ in 0..round * 20 {
            lanes[0].poll(&mut done);
            lanes[1].poll(&mut others);
        }
        a.detach(&from);
        let begun = Instant::now();
        while done.len() < 200 {
            assert!(begun.elapsed() < LIMIT, "{} came back", done.len());
            lanes[0].post(&mut ops);
            lanes[0].poll(&mut done);
            lanes[1].poll(&mut others);
        }
        let is_told = |one: &Completion| {
            use Failure::{Flushed, Local, Unsupported};
            matches!(one.outcome, Ok(Done::Placed) | Err(Flushed | Local | Unsupported))
        };
        assert!(done.iter().all(is_told), "{:?}", done.iter().find(|one| !is_told(one)));
    }
}

#[test]
fn a_region_detached_in_flight_harms_nobody_over_tcp() {
    a_region_detached_in_flight_harms_nobody("tcp");
}

#[test]
fn a_region_detached_in_flight_harms_nobody_over_shm() {
    a_region_detached_in_flight_harms_nobody("shm");
}

/// Also where an end sleeps between messages, by a descriptor or by naps.
fn a_lane_says_how_it_sleeps(provider: &str, naps: bool) {
    let domain = open(provider);
    let [mut near, mut far] = connect(&domain, &domain);
    assert_eq!((near.caps().lane, near.caps().wakes_by_timer), ("ofi", naps));
    let [from, into] = [(); 2].map(|()| domain.register(&memory(), Rights::NONE).unwrap());
    let listener = std::thread::spawn(move || {
        let (mut heard, mut done) = (0, Vec::new());
        loop {
            far.post(&mut VecDeque::from([Op::receive(1, into.slice(..8))]));
            while done.is_empty() {
                wait(&mut *far, &mut done, LIMIT);
            }
            match done.remove(0).outcome {
                Ok(Done::Received { length: 8, imm: None }) => heard += 1,
                other => return (heard, other),
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
    let (heard, end) = listener.join().unwrap();
    assert_eq!((heard, end), (50, Err(Failure::PeerGone)), "it hears that the peer left");
}

#[test]
fn a_lane_over_tcp_sleeps_on_a_descriptor() {
    a_lane_says_how_it_sleeps("tcp", false);
}

#[test]
fn a_lane_over_shm_naps() {
    a_lane_says_how_it_sleeps("shm", true);
}
