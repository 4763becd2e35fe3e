//! Lanes over real queue pairs and a real wire: rxe0 and rxe1 are its two ends. Needs the lab, and
//! `--test-threads=1`, since the wire is shared.
#![allow(missing_docs, reason = "a test")]

mod faults;
mod pair;

use std::collections::VecDeque;
use std::time::Duration;

use fabric::verbs::{Config, QpType, SrqConfig, UsablePort};
use fabric::{
    Completion, Done, ErrorKind, Fabric, Failure, Lane, Memory, Op, OpKind, Pages, Region,
    RemoteRegion, Rights, Side, Slices, Work,
};
use pair::{LIMIT, Pair, SIZE, connect, import, open, region};

fn placed(op_id: u64) -> (u64, Result<Done, Failure>) {
    (op_id, Ok(Done::Placed))
}

fn received(op_id: u64, length: usize, imm: Option<u32>) -> (u64, Result<Done, Failure>) {
    (op_id, Ok(Done::Received { length, imm }))
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

#[test]
fn writes_reads_sends_and_immediate_data_arrive() {
    let mut pair = Pair::new(Config::default());
    let Pair { near, far } = &mut pair;
    near.region.memory().write(0, &pattern(5000));
    far.region.memory().write(60_000, b"of the peer");
    far.post([
        Op::receive(10, Slices::EMPTY),
        Op::receive(11, far.region.slice(100_000..110_000)),
        Op::receive(12, far.region.slice(120_000..130_000)),
    ]);
    near.post([
        Op::write(1, near.region.slice(0..5000), near.window.at(7)),
        Op::write_imm(2, near.region.slice(0..100), near.window.at(20_000), 0xdead_beef),
        Op::read(3, near.region.slice(90_000..90_011), near.window.at(60_000)),
        Op::send(4, near.region.slice(0..5000)),
        Op { op_id: 5, work: Work::Send { from: near.region.slice(0..64).into(), imm: Some(77) } },
    ]);
    pair.run(5, 3);
    let Pair { near, far } = &mut pair;
    assert_eq!(near.outcomes(), [1, 2, 3, 4, 5].map(placed));
    let mut arrived = far.outcomes();
    arrived.sort_by_key(|(op_id, _)| *op_id);
    let expected = [
        received(10, 100, Some(0xdead_beef)),
        received(11, 5000, None),
        received(12, 64, Some(77)),
    ];
    assert_eq!(arrived, expected);
    assert_eq!(far.region.slice(7..5007).to_vec(), pattern(5000));
    assert_eq!(far.region.slice(20_000..20_100).to_vec(), pattern(100));
    assert_eq!(far.region.slice(100_000..105_000).to_vec(), pattern(5000));
    assert_eq!(near.region.slice(90_000..90_011).to_vec(), b"of the peer");
    let stats = near.lane.stats();
    assert_eq!((stats.operations(OpKind::Write), stats.bytes(OpKind::Write)), (2, 5100));
    assert_eq!(stats.latency().count(), 1, "the first of 32 is timed");
}

#[test]
fn atomics_return_the_old_value() {
    let mut pair = Pair::new(Config::default());
    let Pair { near, far } = &mut pair;
    far.region.memory().store(64, 40);
    let old = |at: usize| near.region.slice(at..at + 8);
    let at = near.window.at(64);
    let add = Work::FetchAdd { old: old(0), at: at.clone(), add: 2 };
    let swap = Work::CompareSwap { old: old(8), at: at.clone(), expect: 42, new: 99 };
    let miss = Work::CompareSwap { old: old(16), at, expect: 42, new: 7 };
    let odd = Work::FetchAdd { old: old(24), at: near.window.at(65), add: 1 };
    let works = [add, swap, miss, odd];
    near.post((0..).zip(works).map(|(op_id, work)| Op { op_id, work }));
    pair.run(4, 0);
    let mut outcomes = pair.near.outcomes();
    outcomes.sort_by_key(|(op_id, _)| *op_id);
    let old = |op_id, value| (op_id, Ok(Done::Old(value)));
    assert_eq!(outcomes[..3], [old(0, 40), old(1, 42), old(2, 99)]);
    assert_eq!(outcomes[3], (3, Err(Failure::Unsupported)), "not aligned");
    assert_eq!(pair.far.region.memory().load(64), 99);
    assert_eq!(pair.near.region.memory().load(8), 42);
}

#[test]
fn operations_without_bytes_work() {
    let mut pair = Pair::new(Config::default());
    let Pair { near, far } = &mut pair;
    far.post([Op::receive(1, Slices::EMPTY), Op::receive(2, far.region.slice(5..5))]);
    near.post([
        Op::write(1, Slices::EMPTY, near.window.at(0)),
        Op::write_imm(2, near.region.slice(9..9), near.window.at(0), 5),
        Op::send(3, Slices::EMPTY),
        Op::read(4, Slices::EMPTY, near.window.at(0)),
    ]);
    pair.run(4, 2);
    assert_eq!(pair.near.outcomes(), [1, 2, 3, 4].map(placed));
    assert_eq!(pair.far.outcomes(), [received(1, 0, Some(5)), received(2, 0, None)]);
}

/// Messages of 1000 bytes, three slices at a time, and a queue of four: everything must be split, and
/// one operation is larger than the queue.
#[test]
fn operations_too_long_for_a_work_request_are_split() {
    let config = Config {
        max_message: Some(1000),
        max_send_wr: 4,
        max_sge: 3,
        max_inline_data: 0,
        ..Config::default()
    };
    let mut pair = Pair::new(config);
    let Pair { near, far } = &mut pair;
    assert_eq!((near.lane.caps().max_message, near.lane.caps().depth), (1000, 4));
    near.region.memory().write(0, &pattern(60_000));
    far.post([Op::receive(1, Slices::EMPTY), Op::receive(2, far.region.slice(200_000..201_000))]);
    let slices: Vec<_> = (0..60).map(|at| near.region.slice(at * 1000..at * 1000 + 777)).collect();
    let refused = Op::send(3, near.region.slice(0..1001));
    let split = Op::write_imm(1, Slices::Many(slices), near.window.at(10), 42);
    near.post([refused, split]);
    pair.run(2, 1);
    let Pair { near, far } = &mut pair;
    assert_eq!(near.outcomes(), [(3, Err(Failure::Unsupported)), placed(1)]);
    // The length of the last part: 46,620 bytes in parts of a thousand.
    assert_eq!(far.outcomes(), [received(1, 620, Some(42))]);
    let wanted: Vec<u8> =
        pattern(60_000).chunks(1000).flat_map(|chunk| chunk[..777].to_vec()).collect();
    assert_eq!(far.region.slice(10..10 + wanted.len()).to_vec(), wanted);
    assert_eq!(
        far.region.slice(10 + wanted.len()..).to_vec()[0],
        0,
        "a byte after the end changed"
    );

    let into: Vec<_> =
        (0..7).map(|at| near.region.slice(100_000 + at * 2000..101_111 + at * 2000)).collect();
    near.post([Op::read(2, Slices::Many(into.clone()), near.window.at(10))]);
    pair.run(1, 0);
    assert_eq!(pair.near.outcomes(), [placed(2)]);
    let read: Vec<u8> = into.iter().flat_map(fabric::Slice::to_vec).collect();
    assert_eq!(read, wanted[..read.len()]);
}

#[test]
fn a_full_queue_loses_no_operations() {
    let config = Config { max_send_wr: 16, max_recv_wr: 16, ..Config::default() };
    let mut pair = Pair::new(config);
    let Pair { near, far } = &mut pair;
    let one = |op_id| Op::send(op_id, near.region.slice(0..100));
    let mut sends: VecDeque<Op> = (0..500).map(one).collect();
    let into = |op_id| Op::receive(op_id, far.region.slice(0..100));
    let mut receives: VecDeque<Op> = (0..500).map(into).collect();
    assert_eq!(far.lane.post(&mut receives), 16);
    assert_eq!(near.lane.post(&mut sends), 16);
    assert_eq!(near.lane.post(&mut sends), 0, "a full queue is no error");
    let started = std::time::Instant::now();
    while near.done.len() < 500 || far.done.len() < 500 {
        far.poll();
        far.lane.post(&mut receives);
        near.lane.post(&mut sends);
        near.poll();
        assert!(started.elapsed() < LIMIT, "{} {}", near.done.len(), far.done.len());
    }
    assert!(near.outcomes().into_iter().eq((0..500).map(placed)));
    assert!(far.outcomes().iter().all(|(_, outcome)| outcome.is_ok()));
}

#[test]
fn memory_and_windows_of_other_lanes_are_unsupported() {
    let mut pair = Pair::new(Config::default());
    let mut other = Pair::new(Config::default());
    let unknown_peer = region(&other.near.domain);
    let Pair { near, .. } = &mut pair;
    near.post([
        Op::write(1, near.region.slice(0..8), other.near.window.at(0)),
        Op::write(2, unknown_peer.slice(0..8), near.window.at(0)),
        Op::send(3, Slices::Many(vec![near.region.slice(0..1); 17])),
        Op::receive(4, Slices::Many(vec![near.region.slice(0..1); 17])),
        Op::write(5, near.region.slice(0..8), near.window.at(0)),
    ]);
    pair.run(5, 0);
    let mut outcomes = pair.near.outcomes();
    outcomes.sort_by_key(|(op_id, _)| *op_id);
    let refused = |op_id| (op_id, Err(Failure::Unsupported));
    assert_eq!(outcomes[..4], [1, 2, 3, 4].map(refused));
    assert_eq!(outcomes[4], placed(5));
    assert_eq!(pair.near.lane.stats().failures(Failure::Unsupported), 4);
    other.run(0, 0);
    assert_eq!(pair.near.lane.grant(&unknown_peer).unwrap_err().kind(), ErrorKind::Misuse);
    let mut bytes = pair.near.lane.grant(&pair.near.region).unwrap().to_bytes();
    bytes[1] = 3;
    let of_tcp = RemoteRegion::from_bytes(&bytes).unwrap();
    assert_eq!(pair.near.lane.import(&of_tcp).unwrap_err().kind(), ErrorKind::Misuse);
}

fn srq(slots: usize) -> Config {
    let queue = SrqConfig { memory: slots * 1024, max_message: 1024, max_unexpected: 3 };
    Config { srq: Some(queue), max_recv_wr: 8, ..Config::default() }
}

/// Polls until the lane has this many completions.
fn completions(lane: &mut dyn Lane, count: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    let started = std::time::Instant::now();
    while done.len() < count {
        fabric::wait(lane, &mut done, LIMIT);
        assert!(started.elapsed() < LIMIT, "{done:?}");
    }
    done
}

#[test]
fn two_lanes_share_a_receive_queue() {
    let mut pair = Pair::new(srq(2));
    let (mut second_near, mut second_far) = connect(&pair.near.domain, &pair.far.domain);
    let Pair { near, far } = &mut pair;
    // The memory of receives need not be registered: messages are copied into it.
    let memory = Memory::allocate(4096, Pages::Plain).unwrap();
    let places = Region::shared(&memory, Rights::NONE);
    far.post([Op::receive(1, places.slice(0..100))]);
    second_far.post(&mut VecDeque::from([Op::receive(2, places.slice(100..200))]));
    let mut more: VecDeque<Op> =
        (3..20).map(|op_id| Op::receive(op_id, places.slice(200..300))).collect();
    assert_eq!(second_far.post(&mut more), 7, "each lane has receives of its own");

    near.region.memory().write(0, b"firstsecond");
    second_near.post(&mut VecDeque::from([Op::send(2, near.region.slice(5..11))]));
    let arrived = completions(&mut *second_far, 1).remove(0);
    assert_eq!((arrived.op_id, arrived.outcome), received(2, 6, None));
    near.post([Op::send(1, near.region.slice(0..5))]);
    completions(&mut *second_near, 1);
    pair.run(1, 1);
    let Pair { near, far } = &mut pair;
    assert_eq!(far.outcomes(), [received(1, 5, None)]);
    assert_eq!(memory_bytes(&places, 0, 5), b"first");
    assert_eq!(memory_bytes(&places, 100, 6), b"second");

    // A lane that ends returns its own receives, and takes no slot with it.
    second_far.close();
    let returned = completions(&mut *second_far, 7);
    assert!(returned.iter().all(|one| one.outcome == Err(Failure::Flushed)), "{returned:?}");
    drop((second_near, second_far));
    near.done.clear();
    for round in 0..20 {
        let Pair { near, far } = &mut pair;
        far.post([Op::receive(round, far.region.slice(0..100))]);
        near.post([Op::send(round, near.region.slice(0..5))]);
        pair.run(1, 1);
        let Pair { near, far } = &mut pair;
        assert_eq!((near.outcomes().len(), far.outcomes()), (1, vec![received(round, 5, None)]));
    }
    let Pair { near, .. } = &mut pair;
    assert_eq!(near.lane.caps().max_message, 1024, "what the peer can receive");
    near.post([Op::send(9, near.region.slice(0..1025))]);
    pair.run(1, 0);
    assert_eq!(pair.near.outcomes(), [(9, Err(Failure::Unsupported))]);
}

#[test]
fn a_lane_on_a_shared_queue_keeps_a_few_early_messages() {
    let mut pair = Pair::new(srq(2));
    let (mut second_near, mut second_far) = connect(&pair.near.domain, &pair.far.domain);
    let (from, into) = (pair.near.region.clone(), pair.far.region.clone());
    from.memory().write(0, &pattern(64));
    pair.near.post((1..=3).map(|op_id| Op::send(op_id, from.slice(0..op_id as usize))));
    pair.run(3, 0);
    assert!(pair.near.outcomes().iter().all(|(_, outcome)| outcome.is_ok()));
    pair.far.poll();
    pair.far.post((1..=3).map(|op_id| Op::receive(op_id, into.slice(0..64))));
    pair.run(0, 3);
    let Pair { near, far } = &mut pair;
    assert_eq!(far.outcomes(), [1, 2, 3].map(|n| received(n, n as usize, None)));

    // More of them than it keeps, or than the queue has: the lane ends, and others go on.
    near.post((1..=8).map(|op_id| Op::send(op_id, from.slice(0..64))));
    let started = std::time::Instant::now();
    while far.lane.stats().ended().is_none() {
        far.poll();
        near.poll();
        assert!(started.elapsed() < LIMIT);
    }
    assert_eq!(far.lane.stats().ended(), Some(Failure::NotReady));
    for round in 0..5 {
        second_far.post(&mut VecDeque::from([Op::receive(round, into.slice(0..64))]));
        second_near.post(&mut VecDeque::from([Op::send(round, from.slice(0..64))]));
        let arrived = completions(&mut *second_far, 1).remove(0);
        assert_eq!((arrived.op_id, arrived.outcome), received(round, 64, None));
        completions(&mut *second_near, 1);
        far.poll();
    }
}

fn memory_bytes(region: &Region, at: usize, length: usize) -> Vec<u8> {
    region.slice(at..at + length).to_vec()
}

fn datagrams() -> Config {
    Config { qp_type: QpType::Ud, ..Config::default() }
}

#[test]
fn datagrams_arrive_without_their_header() {
    let mut pair = Pair::new(datagrams());
    let Pair { near, far } = &mut pair;
    let caps = near.lane.caps();
    assert!(caps.datagram);
    assert_eq!(caps.max_message, 4096);
    near.region.memory().write(0, &pattern(4096));
    let slices = vec![far.region.slice(0..96), far.region.slice(1000..5000)];
    far.post([Op::receive(1, Slices::Many(slices)), Op::receive(2, far.region.slice(8000..8010))]);
    near.post([
        Op::send(1, near.region.slice(0..4096)),
        Op { op_id: 2, work: Work::Send { from: near.region.slice(0..10).into(), imm: Some(9) } },
        Op::send(3, near.region.slice(0..4097)),
        Op::write(4, near.region.slice(0..8), near.window.at(0)),
        Op::read(5, near.region.slice(0..8), near.window.at(0)),
        Op {
            op_id: 6,
            work: Work::FetchAdd { old: near.region.slice(0..8), at: near.window.at(0), add: 1 },
        },
    ]);
    pair.run(6, 2);
    let Pair { near, far } = &mut pair;
    let mut outcomes = near.outcomes();
    outcomes.sort_by_key(|(op_id, _)| *op_id);
    assert_eq!(outcomes[..2], [placed(1), placed(2)]);
    assert_eq!(outcomes[2..], [3, 4, 5, 6].map(|op_id| (op_id, Err(Failure::Unsupported))));
    assert_eq!(far.outcomes(), [received(1, 4096, None), received(2, 10, Some(9))]);
    let whole = [far.region.slice(0..96).to_vec(), far.region.slice(1000..5000).to_vec()].concat();
    assert_eq!(whole, pattern(4096));
    assert_eq!(far.region.slice(8000..8010).to_vec(), pattern(10));
}

#[test]
fn a_datagram_of_an_unknown_peer_is_dropped() {
    let (near, far) = (open("rxe0", &datagrams()), open("rxe1", &datagrams()));
    let (ours, theirs) =
        (near.prepare_lane(Side::Dial).unwrap(), far.prepare_lane(Side::Accept).unwrap());
    let unknown_dial = near.prepare_lane(Side::Dial).unwrap();
    let their_offer = theirs.offer();
    let mut receiver = theirs.connect(&ours.offer(), LIMIT).unwrap();
    let mut sender = ours.connect(&their_offer, LIMIT).unwrap();
    let mut unknown_peer = unknown_dial.connect(&their_offer, LIMIT).unwrap();
    let (from, into) = (region(&near), region(&far));
    from.memory().write(0, b"strangefriend!");
    receiver.post(&mut VecDeque::from([Op::receive(1, into.slice(0..100))]));
    let mut done = Vec::new();
    unknown_peer.post(&mut VecDeque::from([Op::send(1, from.slice(0..7))]));
    let started = std::time::Instant::now();
    while far.event_counts().unknown_peers == 0 {
        assert_eq!(receiver.poll(&mut done), 0);
        assert!(started.elapsed() < LIMIT);
    }
    sender.post(&mut VecDeque::from([Op::send(2, from.slice(7..14))]));
    while done.is_empty() {
        fabric::wait(&mut *receiver, &mut done, Duration::from_millis(100));
        assert!(started.elapsed() < LIMIT);
    }
    assert_eq!(done[0].outcome, Ok(Done::Received { length: 7, imm: None }));
    assert_eq!(into.slice(0..7).to_vec(), b"friend!");
    assert_eq!(far.event_counts().unknown_peers, 1);
}

#[test]
fn datagram_lanes_share_a_receive_queue() {
    let mut pair = Pair::new(Config { srq: Some(SrqConfig::default()), ..datagrams() });
    let Pair { near, far } = &mut pair;
    near.region.memory().write(0, b"shared");
    far.post([Op::receive(1, far.region.slice(0..100))]);
    near.post([Op::send(1, near.region.slice(0..6))]);
    pair.run(1, 1);
    assert_eq!(pair.far.outcomes(), [received(1, 6, None)]);
    assert_eq!(pair.far.region.slice(0..6).to_vec(), b"shared");
}

#[test]
fn a_sleeper_is_woken() {
    let mut pair = Pair::new(Config { use_event_channel: true, ..Config::default() });
    assert!(pair.far.domain.config().use_event_channel);
    let Pair { near, far } = &mut pair;
    for round in 0..3 {
        far.post([Op::receive(round, far.region.slice(0..100))]);
        assert!(far.lane.arm());
        assert!(!far.sleep(Duration::ZERO), "woken without a message");
        near.post([Op::send(round, near.region.slice(0..100))]);
        assert!(far.sleep(LIMIT));
        far.poll();
        assert_eq!(far.outcomes(), [received(round, 100, None)]);
    }
    // `arm` fails if a message arrived before.
    far.post([Op::receive(9, far.region.slice(0..100))]);
    near.post([Op::send(9, near.region.slice(0..100))]);
    let mut done = Vec::new();
    while done.len() < 4 {
        fabric::wait(&mut *near.lane, &mut done, LIMIT);
    }
    let started = std::time::Instant::now();
    while far.lane.arm() {
        assert!(started.elapsed() < LIMIT);
    }
    far.poll();
    assert_eq!(far.outcomes(), [received(9, 100, None)]);
}

#[test]
fn connecting_different_queue_pair_types_fails() {
    let (reliable, datagram) = (open("rxe0", &Config::default()), open("rxe1", &datagrams()));
    let offer = datagram.prepare_lane(Side::Accept).unwrap().offer();
    let unconnected = reliable.prepare_lane(Side::Dial).unwrap();
    let error = unconnected.connect(&offer, LIMIT).err().expect("different types");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("the peer's queue pair is Ud, the local one Rc"), "{error}");
    let unconnected = reliable.prepare_lane(Side::Dial).unwrap();
    let error = unconnected.connect(b"invalid", LIMIT).err().expect("an invalid offer");
    assert_eq!(error.kind(), ErrorKind::Misuse);
}

/// One host has the near ends of the wires, the other the far ones.
#[test]
fn ports_are_paired_by_subnet() {
    let devices =
        fabric::verbs::list_devices(std::path::Path::new(fabric::verbs::LIBRARY)).unwrap().devices;
    let request =
        fabric::verbs::DeviceRequest { device: None, port: None, gid_index: None, mtu: 4096 };
    let (choices, refused) = fabric::verbs::candidates(&devices, &request);
    assert!(refused.is_empty(), "{refused:?}");
    let host = |names: [&str; 2]| -> Vec<UsablePort> {
        let own = choices.iter().filter(|choice| names.contains(&choice.device.as_str()));
        let ports =
            own.map(UsablePort::of).map(|port| UsablePort::from_bytes(&port.to_bytes()).unwrap());
        ports.collect()
    };
    let (near, far) = (host(["rxe0", "rxe2"]), host(["rxe1", "rxe3"]));
    let (pairs, left) = fabric::verbs::pair(&near, &far, 8);
    let named = |one: &fabric::verbs::Pair| {
        format!("{} {}: {}", near[one.ours].device, far[one.theirs].device, one.why)
    };
    let expected = ["rxe0 rxe1: same subnet 10.77.0.0/24", "rxe2 rxe3: same subnet 10.77.1.0/24"];
    assert_eq!(pairs.iter().map(named).collect::<Vec<_>>(), expected);
    assert!(left.is_empty() && pairs.iter().all(|pair| pair.weight > 1 && pair.mtu == 4096));
}

#[test]
fn dc_is_unsupported() {
    let library = std::path::Path::new(fabric::verbs::LIBRARY);
    let devices = fabric::verbs::list_devices(library).unwrap().devices;
    let request =
        fabric::verbs::DeviceRequest { device: None, port: None, gid_index: None, mtu: 4096 };
    let choice = fabric::verbs::choose(&devices, &request).unwrap();
    let config = Config { qp_type: QpType::Dc, ..Config::default() };
    let error = fabric::verbs::Domain::open_with(library, &choice, config).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("no DC on this device"), "{error}");
}

#[test]
fn a_read_only_region_is_not_written() {
    let mut pair = Pair::new(Config::default());
    let Pair { near, far } = &mut pair;
    let memory = Memory::allocate(SIZE, Pages::Plain).unwrap();
    let readable = Rights { read: true, ..Rights::NONE };
    let guarded = far.domain.register(&memory, readable).unwrap();
    let window = import(&mut *near.lane, &mut *far.lane, &guarded);
    near.post([Op::read(1, near.region.slice(0..8), window.at(0))]);
    pair.run(1, 0);
    assert_eq!(pair.near.outcomes(), [placed(1)]);
    let Pair { near, .. } = &mut pair;
    near.region.memory().store(0, 666);
    near.post([Op::write(2, near.region.slice(0..8), window.at(0))]);
    pair.run(1, 0);
    assert_eq!(pair.near.outcomes(), [(2, Err(Failure::Access))]);
    assert_eq!(memory.load(0), 0);
}
