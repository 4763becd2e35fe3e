//! Failures: late and lost peers, wrong keys, cut wires.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fabric::verbs::{Config, DeviceRequest, LIBRARY, choose, list_devices};
use fabric::{Done, Failure, Memory, Op, RemoteRegion, Rights};

use crate::pair::{End, LIMIT, Pair, SIZE, import, open, shell, wire};

const FLUSHED: Result<Done, Failure> = Err(Failure::Flushed);

impl End {
    /// Asserts that the lane is dead: operations are flushed.
    #[track_caller]
    fn assert_dead(&mut self) {
        self.done.clear();
        self.post([
            Op::write(100, self.region.slice(0..8), self.window.at(0)),
            Op::receive(101, self.region.slice(0..8)),
        ]);
        self.poll();
        assert_eq!(self.outcomes(), [(100, FLUSHED), (101, FLUSHED)]);
    }
}

#[test]
fn a_receive_may_be_posted_half_a_second_late() {
    let mut pair = Pair::new(Config::default());
    let Pair { near, far } = &mut pair;
    near.post([Op::send(1, near.region.slice(0..100))]);
    std::thread::sleep(Duration::from_millis(500));
    far.post([Op::receive(1, far.region.slice(0..100))]);
    pair.run(1, 1);
    assert_eq!(pair.near.outcomes(), [(1, Ok(Done::Placed))]);
}

#[test]
fn a_missing_receive_is_not_ready() {
    let mut pair = Pair::new(Config::default());
    let Pair { near, .. } = &mut pair;
    near.post([
        Op::write(1, near.region.slice(0..8), near.window.at(0)),
        Op::send(2, near.region.slice(0..100)),
        Op::write(3, near.region.slice(0..8), near.window.at(0)),
    ]);
    pair.run(3, 0);
    let expected = [(1, Ok(Done::Placed)), (2, Err(Failure::NotReady)), (3, FLUSHED)];
    assert_eq!(pair.near.outcomes(), expected);
    pair.near.assert_dead();
}

#[test]
fn a_message_longer_than_its_receive_is_too_long_for_both() {
    let mut pair = Pair::new(Config::default());
    let Pair { near, far } = &mut pair;
    far.post([Op::receive(1, far.region.slice(0..99))]);
    near.post([Op::send(1, near.region.slice(0..100))]);
    pair.run(1, 1);
    assert_eq!(pair.near.outcomes(), [(1, Err(Failure::TooLong))]);
    assert_eq!(pair.far.outcomes(), [(1, Err(Failure::TooLong))]);
}

#[test]
fn a_wrong_key_ends_both_lanes() {
    let mut pair = Pair::new(Config::default());
    let Pair { near, far } = &mut pair;
    let mut bytes = far.lane.grant(&far.region).unwrap().to_bytes();
    bytes[21] ^= 0x55;
    let forged = near.lane.import(&RemoteRegion::from_bytes(&bytes).unwrap()).unwrap();
    far.post([Op::receive(1, far.region.slice(0..8))]);
    near.region.memory().store(0, 666);
    near.post([
        Op::write(1, near.region.slice(0..8), near.window.at(8)),
        Op::write(2, near.region.slice(0..8), forged.at(0)),
        Op::write(3, near.region.slice(0..8), near.window.at(16)),
    ]);
    pair.run(3, 1);
    let expected = [(1, Ok(Done::Placed)), (2, Err(Failure::Access)), (3, FLUSHED)];
    assert_eq!(pair.near.outcomes(), expected);
    assert!(pair.far.outcomes()[0].1.is_err());
    let memory = pair.far.region.memory();
    assert_eq!([0, 8, 16].map(|at| memory.load(at)), [0, 666, 0]);
    pair.near.assert_dead();
    pair.far.assert_dead();
}

#[test]
fn dropped_regions_and_targets_out_of_bounds_are_refused() {
    for beyond in [false, true] {
        let mut pair = Pair::new(Config::default());
        let Pair { near, far } = &mut pair;
        let memory = Memory::from_boxed(vec![0; 4096].into()).unwrap();
        let granted = far.domain.register(&memory, Rights::ALL).unwrap();
        let window = import(&mut *near.lane, &mut *far.lane, &granted);
        let place = if beyond { window.at(4089) } else { window.at(0) };
        let kept = beyond.then_some(granted);
        near.post([Op::write(1, near.region.slice(0..8), place)]);
        pair.run(1, 0);
        assert_eq!(pair.near.outcomes(), [(1, Err(Failure::Access))]);
        drop(kept);
        memory.into_boxed().expect("no other owner");
    }
}

#[test]
fn a_closed_lane_returns_all_operations() {
    let mut pair = Pair::new(Config::default());
    let Pair { near, far } = &mut pair;
    let region = far.region.clone();
    far.post((0..20).map(|op_id| Op::receive(op_id, region.slice(0..8))));
    far.lane.close();
    near.post([Op::write(1, near.region.slice(0..8), near.window.at(0))]);
    pair.run(1, 20);
    assert!(pair.far.outcomes().into_iter().eq((0..20).map(|op_id| (op_id, FLUSHED))));
    assert_eq!(pair.near.outcomes(), [(1, Err(Failure::PeerGone))]);
    assert!(
        pair.far.lane.arm() && !pair.far.sleep(Duration::from_millis(10)),
        "woken without events"
    );
    pair.far.assert_dead();
}

/// Private memory, and ten writes from it.
fn private_memory_writes(near: &End) -> (Memory, Vec<Op>) {
    let memory = Memory::from_boxed(vec![1; SIZE].into()).unwrap();
    let region = near.domain.register(&memory, Rights::NONE).unwrap();
    let write = |op_id| Op::write(op_id, region.slice(0..20_000), near.window.at(0));
    (memory, (0..10).map(write).collect())
}

#[test]
fn a_cut_wire_ends_the_lane_and_releases_memory() {
    let mut pair = Pair::new(Config::default());
    let Pair { near, .. } = &mut pair;
    let (memory, writes) = private_memory_writes(near);
    wire("cut 0");
    near.post(writes);
    near.lane.arm();
    let started = Instant::now();
    while near.done.len() < 10 {
        fabric::wait(&mut *near.lane, &mut near.done, Duration::from_secs(1));
        assert!(started.elapsed() < LIMIT, "{:?}", near.done);
    }
    wire("repair 0");
    let outcomes = near.outcomes();
    // Soft-RoCE reports a packet that it cannot send as a local failure; one that was sent gets no answer.
    let is_cut = matches!(outcomes[0], (0, Err(Failure::PeerGone | Failure::Local)));
    assert!(is_cut, "{outcomes:?}");
    assert!(outcomes[1..].iter().all(|(_, outcome)| *outcome == FLUSHED), "{outcomes:?}");
    memory.into_boxed().expect("no other owner");
    near.assert_dead();
}

#[test]
fn a_dropped_lane_releases_its_memory() {
    let pair = Pair::new(Config::default());
    let Pair { mut near, far } = pair;
    let (memory, writes) = private_memory_writes(&near);
    let receive = near.domain.register(&memory, Rights::NONE).unwrap();
    wire("loss 0 100%");
    near.post(writes);
    near.post([Op::receive(11, receive.slice(..))]);
    drop((receive, near));
    wire("repair 0");
    memory.into_boxed().expect("no other owner");
    drop(far);
}

#[test]
fn a_port_that_goes_down_is_an_incident_and_wakes_the_sleeper() {
    let mut pair = Pair::new(Config::default());
    let near = &mut pair.near;
    assert!(near.lane.arm());
    assert_eq!(near.domain.event_counts().port_down, 0);
    assert_eq!((near.domain.is_broken(), near.domain.port_problem()), (None, None));
    shell("ip link set v0 down");
    assert!(near.sleep(LIMIT));
    let started = Instant::now();
    while near.domain.event_counts().port_down == 0 {
        assert!(started.elapsed() < LIMIT);
    }
    assert!(near.lane.arm(), "an incident prevented sleeping");
    assert_eq!(near.domain.port_problem().as_deref(), Some("rxe0 port 1 is DOWN"));
    assert_eq!(near.domain.is_broken(), None, "a port that is down is not broken");
    wire("repair 0");
    while near.domain.event_counts().port_up == 0 {
        assert!(started.elapsed() < LIMIT);
    }
    assert_eq!(near.domain.event_counts().device_fatal, 0);
    assert_eq!(near.domain.port_problem(), None, "the port is up again");
}

#[test]
fn a_port_that_loses_its_address_has_a_problem() {
    let domain = open("rxe2", &Config::default());
    let problem = |wanted: Option<&str>| {
        let started = Instant::now();
        while domain.port_problem().as_deref() != wanted {
            let problem = domain.port_problem();
            assert!(started.elapsed() < LIMIT, "{problem:?}, not {wanted:?}");
        }
    };
    problem(None);
    shell("ip addr del 10.77.1.1/24 dev v2");
    problem(Some("rxe2 port 1 has lost its address ::ffff:10.77.1.1, GID 1"));
    shell("ip addr add 10.79.1.1/24 dev v2");
    let other = "rxe2 port 1 has changed its GID 1 from ::ffff:10.77.1.1 to ::ffff:10.79.1.1";
    problem(Some(other));
    assert_eq!(domain.is_broken(), None);
    shell("ip addr del 10.79.1.1/24 dev v2; ip addr add 10.77.1.1/24 dev v2");
    problem(None);
    wire("repair 1");
}

/// On its own rail, since the test destroys it.
#[test]
fn a_device_that_is_unplugged_ends_its_lanes() {
    shell(UNPLUGGABLE);
    let before = in_use();
    // The first retransmission would be due after hours, so only the removal can end the lane.
    let config = Config { timeout: 31, ..Config::default() };
    let mut pair = Pair::between("rxe_u0", "rxe_u1", &config);
    let Pair { near, far } = &mut pair;
    let (memory, writes) = private_memory_writes(near);
    far.post([Op::receive(1, far.region.slice(0..100))]);
    near.post([Op::receive(50, near.region.slice(0..100))]);
    shell("tc qdisc add dev u0 root netem loss 100%");
    near.post(writes);
    // It ends when the last user of the device, this process, has closed it.
    let mut unplug = Command::new("ip").args(["link", "del", "u0"]).spawn().expect("ip runs");
    let started = Instant::now();
    while near.done.len() < 11 {
        fabric::wait(&mut *near.lane, &mut near.done, Duration::from_secs(1));
        assert!(started.elapsed() < LIMIT, "{:?}", near.done);
    }
    let outcomes = near.outcomes();
    assert!(outcomes.iter().all(|(_, outcome)| outcome.is_err()), "{outcomes:?}");
    memory.into_boxed().expect("no other owner");
    near.assert_dead();
    while near.domain.is_broken().as_deref() != Some("rxe_u0 was removed from this machine") {
        assert!(started.elapsed() < LIMIT, "{:?}", near.domain.is_broken());
    }
    assert_eq!(near.domain.port_problem(), near.domain.is_broken());
    drop(pair);
    while unplug.try_wait().expect("our child").is_none() {
        assert!(started.elapsed() < LIMIT, "the device is still in use");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(in_use(), before, "descriptors or pinned memory were leaked");
    let request =
        DeviceRequest { device: Some("rxe_u0".to_owned()), port: None, gid_index: None, mtu: 4096 };
    let devices = list_devices(Path::new(LIBRARY)).expect("the lab has others").devices;
    let refusal = choose(&devices, &request).expect_err("the device was removed").to_string();
    assert!(refusal.starts_with("no RDMA device rxe_u0; available: rxe"), "{refusal}");
    assert!(["rxe0", "rxe1"].iter().all(|name| refusal.contains(name)), "{refusal}");
    for pref in [11, 11, 21, 21] {
        shell(&format!("ip rule del pref {pref}"));
    }
}

/// Open descriptors, and what the kernel has pinned for devices.
fn in_use() -> (usize, String) {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("our own").count();
    let status = std::fs::read_to_string("/proc/self/status").expect("our own");
    let pinned = status.lines().find(|line| line.starts_with("VmPin:")).expect("a line");
    (descriptors, pinned.to_owned())
}

/// A rail, set up like those of `lab/wire`.
const UNPLUGGABLE: &str = "
ip link add u0 mtu 9000 type veth peer name u1 mtu 9000
ip addr add 10.78.0.1/24 dev u0
ip addr add 10.78.0.2/24 dev u1
for end in u0 u1; do
    sysctl -qw net.ipv4.conf.$end.accept_local=1 net.ipv4.conf.$end.rp_filter=0
    ip link set $end up
    ip rule add pref 11 iif $end lookup local
    rdma link add rxe_$end type rxe netdev $end
done
ip rule add pref 21 from 10.78.0.1 to 10.78.0.2 lookup 200
ip rule add pref 21 from 10.78.0.2 to 10.78.0.1 lookup 201
ip route replace 10.78.0.2 dev u0 table 200
ip route replace 10.78.0.1 dev u1 table 201
";
