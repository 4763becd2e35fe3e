//! Failures between two processes, with well-behaved and misbehaving peers.
//!
//! Unsafe here: a misbehaving peer writes to its own control block, as its owner could.
#![allow(unsafe_code, reason = "a misbehaving peer writes to its own control block")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use rustix::process::{Resource, getrlimit, setrlimit};

use super::connect::UnconnectedShmLane;
use super::offer::Offer;
use super::{Config, Shm};
use crate::remote::AccessMethod;
use crate::setup::{Fabric, Side, UnconnectedLane};
use crate::{Done, Failure, Lane, Memory, Op, Pages, Region, RemoteRegion, Rights};

const LIMIT: Duration = Duration::from_secs(20);

fn join(
    dial: Box<dyn UnconnectedLane>,
    accept: Box<dyn UnconnectedLane>,
) -> (Box<dyn Lane>, Box<dyn Lane>) {
    let (to_dial, to_accept) = (accept.offer(), dial.offer());
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| accept.connect(&to_accept, LIMIT).unwrap());
        (dial.connect(&to_dial, LIMIT).unwrap(), accepted.join().unwrap())
    })
}

fn pair() -> (Box<dyn Lane>, Box<dyn Lane>) {
    let fabric = Shm::default();
    join(fabric.prepare_lane(Side::Dial).unwrap(), fabric.prepare_lane(Side::Accept).unwrap())
}

fn region(length: usize, rights: Rights) -> Region {
    Shm::default().register(&Memory::allocate(length, Pages::Plain).unwrap(), rights).unwrap()
}

fn write(lane: &mut dyn Lane, from: &Region, to: crate::Target) -> Option<Result<Done, Failure>> {
    lane.post(&mut VecDeque::from([Op::write(1, from.slice(..4), to)]));
    let mut done = Vec::new();
    lane.poll(&mut done);
    done.first().map(|done| done.outcome)
}

#[test]
fn a_lane_that_is_closed_or_dropped_is_not_written_through() {
    for dropped in [false, true] {
        let (mut a, mut b) = pair();
        let (shared, source) = (region(4096, Rights::ALL), region(4096, Rights::NONE));
        source.memory().write(0, b"late");
        let window = a.import(&b.grant(&shared).unwrap()).unwrap();
        b.close();
        if dropped {
            drop(b);
        }
        assert_eq!(write(&mut *a, &source, window.at(0)), Some(Err(Failure::PeerGone)));
        assert_eq!(shared.slice(..4).to_vec(), [0; 4]);
    }
}

/// Descriptors and mappings of control blocks.
fn control_blocks() -> (usize, usize) {
    let is_control_block = |name: String| name.contains("wirelane-control-block");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter(|line| is_control_block((*line).to_owned())).count();
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    (links.filter(|name| is_control_block(name.to_string_lossy().into_owned())).count(), mapped)
}

/// Other tests have some control blocks at the same time, but not that many.
#[test]
fn a_region_does_not_keep_the_control_blocks_of_its_lanes() {
    let shared = region(4096, Rights::ALL);
    let before = control_blocks();
    for _ in 0..300 {
        let (mut a, mut b) = pair();
        a.import(&b.grant(&shared).unwrap()).unwrap();
    }
    let after = control_blocks();
    assert!(after.0 < before.0 + 200 && after.1 < before.1 + 200, "{before:?} {after:?}");
}

#[test]
fn granting_and_dropping_many_regions_does_not_end_the_lane() {
    let (mut a, mut b) = pair();
    for round in 0..5000 {
        let granted = region(4096, Rights::ALL);
        b.grant(&granted).unwrap_or_else(|error| panic!("round {round}: {error}"));
        drop(granted);
        if round % 50 == 49 {
            a.arm();
        }
        assert_eq!(a.stats().ended(), None, "round {round}");
    }
}

#[test]
fn a_grant_that_failed_when_full_can_be_retried() {
    let (mut a, mut b) = pair();
    let granted = region(4096, Rights::ALL);
    while b.grant(&granted).is_ok() {}
    for _ in 0..5000 {
        b.grant(&granted).unwrap_err();
    }
    a.arm();
    b.grant(&granted).expect("the peer received the earlier grants");
}

/// A peer that claims to have read what was never written.
#[test]
fn an_invalid_read_position_ends_the_lane() {
    let end = |side| UnconnectedShmLane::new(&Config::default(), side).unwrap();
    let (dial, misbehaving) = (end(Side::Dial), end(Side::Accept));
    let head = misbehaving.control_block_for_test();
    // SAFETY: a number of the misbehaving peer's own control block, which lives as long as its lane below.
    let head = unsafe { AtomicU64::from_ptr(head.cast()) };
    let (mut a, mut b) = join(Box::new(dial), Box::new(misbehaving));
    let (buffer, source) = (region(1 << 20, Rights::NONE), region(1 << 20, Rights::NONE));
    b.post(&mut VecDeque::from([Op::receive(1, buffer.slice(..))]));
    b.arm();
    let mut done = Vec::new();
    for _ in 0..10 {
        a.poll(&mut done);
    }
    head.store(1 << 40, Ordering::SeqCst);
    a.post(&mut VecDeque::from([Op::send(2, source.slice(..))]));
    assert_eq!(crate::wait(&mut *a, &mut done, LIMIT), 1);
    assert_eq!(a.stats().ended(), Some(Failure::ProtocolError));
}

/// Many valid grants before the first is imported.
#[test]
fn many_grants_can_be_imported_later() {
    // Each uses two descriptors here, and many systems have a soft limit of 1024.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let (mut a, mut b) = pair();
    let regions: Vec<Region> = (0..700).map(|_| region(4096, Rights::ALL)).collect();
    let mut grants = Vec::new();
    for granted in &regions {
        grants.push(b.grant(granted).unwrap());
        a.arm();
        a.poll(&mut Vec::new());
    }
    assert_eq!(a.stats().ended(), None);
    for grant in &grants {
        a.import(grant).unwrap();
    }
}

/// The error is found by the flush at the end of a poll, and no event would wake us.
#[test]
fn arm_fails_after_a_protocol_error_found_while_sending() {
    let end = |side| UnconnectedShmLane::new(&Config::default(), side).unwrap();
    let (dial, misbehaving) = (end(Side::Dial), end(Side::Accept));
    // SAFETY: a number of the misbehaving peer's own control block, which lives as long as its lane below.
    let head = unsafe { AtomicU64::from_ptr(misbehaving.control_block_for_test().cast()) };
    let (mut a, mut b) = join(Box::new(dial), Box::new(misbehaving));
    let (buffer, source) = (region(1 << 20, Rights::NONE), region(1 << 20, Rights::NONE));
    b.post(&mut VecDeque::from([Op::receive(1, buffer.slice(..))]));
    b.arm();
    let mut done = Vec::new();
    a.poll(&mut done);
    a.post(&mut VecDeque::from([Op::send(2, source.slice(..))]));
    head.store(1 << 40, Ordering::SeqCst);
    a.poll(&mut done);
    assert!(!done.is_empty() || !a.arm(), "it sleeps without having returned the failure");
    a.poll(&mut done);
    assert_eq!(done.len(), 1);
    a.post(&mut VecDeque::from([Op::send(3, source.slice(..))]));
    a.poll(&mut done);
    assert_eq!(done[1].outcome, Err(Failure::Flushed));
}

/// A lane that fails while its ring is full sends the reason when the peer has freed space.
#[test]
fn the_failure_reason_is_sent_when_the_ring_has_space() {
    let (mut a, mut b) = pair();
    let small = region(64, Rights { write: true, ..Rights::NONE });
    let window = b.import(&a.grant(&small).unwrap()).unwrap();
    let (buffer, source) = (region(1 << 20, Rights::NONE), region(1 << 20, Rights::NONE));
    // Messages until the ring is full, at a frame boundary.
    let receives = (0..4000).map(|n| Op::receive(n, buffer.slice(..1000)));
    b.post(&mut receives.collect());
    b.arm();
    let mut done = Vec::new();
    a.poll(&mut done);
    let sends = (0..230).map(|n| Op::send(n, source.slice(..1000)));
    a.post(&mut sends.collect());
    // Beyond the region's end; by a request, since it cannot be mapped.
    b.post(&mut VecDeque::from([Op::write(9000, source.slice(..65), window.at(0))]));
    a.poll(&mut done);
    let limit = std::time::Instant::now() + LIMIT;
    let mut received = Vec::new();
    while b.stats().ended().is_none() {
        assert!(std::time::Instant::now() < limit, "{:?}", a.stats().ended());
        b.poll(&mut received);
        if a.arm() {
            crate::lane::sleep(a.fd(), Duration::from_millis(5));
        }
        a.poll(&mut done);
    }
    let refused = received.iter().find(|done| done.op_id == 9000).expect("it was returned");
    assert_eq!(refused.outcome, Err(Failure::Access));
}

#[test]
fn the_secret_is_not_in_proc_net_unix() {
    let accept = Shm::default().prepare_lane(Side::Accept).unwrap();
    let offer = Offer::from_bytes(&accept.offer()).unwrap();
    let names = std::fs::read_to_string("/proc/net/unix").unwrap();
    assert!(names.contains(&format!("{:032x}", offer.name)));
    assert!(!names.contains(&format!("{:032x}", offer.secret)));
}

/// Granted for writing, then for reading, then for writing: all of them work, by mapping or by requests.
#[test]
fn one_memory_may_be_granted_with_several_rights() {
    let (mut a, mut b) = pair();
    let memory = Memory::allocate(4096, Pages::Plain).unwrap();
    let read = Rights { read: true, ..Rights::NONE };
    let grants = [Rights::ALL, read, Rights::ALL].map(|rights| {
        let region = Shm::default().register(&memory, rights).unwrap();
        (b.grant(&region).unwrap(), region)
    });
    let source = region(4096, Rights::NONE);
    for (remote, region) in &grants {
        let window = a.import(remote).unwrap();
        if region.rights() == Rights::ALL {
            write(&mut *a, &source, window.at(0)).expect("mapped").unwrap();
        }
        a.post(&mut VecDeque::from([Op::read(2, source.slice(..8), window.at(0))]));
        let mut done = Vec::new();
        while done.is_empty() {
            b.poll(&mut Vec::new());
            a.poll(&mut done);
        }
        assert_eq!(done[0].outcome, Ok(Done::Placed));
    }
}

#[test]
fn only_rights_that_a_mapping_can_express_are_mapped() {
    let (mut a, mut b) = pair();
    for bits in 0..8 {
        let rights = Rights::from_bits(bits).unwrap();
        let granted = region(4096, rights);
        let window = a.import(&b.grant(&granted).unwrap()).unwrap();
        let mapped = matches!(window.access_method(), AccessMethod::Mapped(_));
        let expressible = rights.read && (rights.write || !rights.atomic);
        assert_eq!(mapped, expressible, "{rights:?}");
    }
}

#[test]
fn many_unknown_connections_neither_prevent_nor_delay_the_peer() {
    let fabric = Shm::default();
    let (dial, accept) =
        (fabric.prepare_lane(Side::Dial).unwrap(), fabric.prepare_lane(Side::Accept).unwrap());
    let offer = Offer::from_bytes(&accept.offer()).unwrap();
    let name = format!("wirelane-{:032x}", offer.name);
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let mut unknown_peers = Vec::new();
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    while let Ok(socket) = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None) {
        if connect(&socket, &name).is_err() {
            break;
        }
        unknown_peers.push(socket);
    }
    let late = fabric.prepare_lane(Side::Dial).unwrap();
    let to_late = accept.offer();
    let Err(error) = late.connect(&to_late, Duration::from_millis(50)) else {
        panic!("backlog not full")
    };
    assert!(error.to_string().contains("connect over shared memory"), "{error}");
    join(dial, accept);
}

#[test]
fn an_invalid_address_falls_back_to_requests() {
    let (mut a, mut b) = pair();
    let private = Memory::from_boxed(vec![0; 16384].into()).unwrap();
    let shared = Shm::default().register(&private, Rights::ALL).unwrap();
    let mut bytes = b.grant(&shared).unwrap().to_bytes();
    bytes[12..20].copy_from_slice(&(u64::MAX - 100).to_le_bytes());
    let window = a.import(&RemoteRegion::from_bytes(&bytes).unwrap()).unwrap();
    let source = region(4096, Rights::NONE);
    let mut done = Vec::new();
    a.post(&mut VecDeque::from([Op::write(1, source.slice(..), window.at(4096))]));
    while done.is_empty() {
        b.poll(&mut Vec::new());
        a.poll(&mut done);
    }
    // The kernel refuses the address; the peer executes the request by key.
    assert_eq!(done[0].outcome, Ok(Done::Placed));
}

#[test]
fn an_infinite_timeout_is_accepted() {
    let fabric = Shm::new(Config { receive_timeout: Duration::MAX, ..Config::default() });
    let (mut a, _b) =
        join(fabric.prepare_lane(Side::Dial).unwrap(), fabric.prepare_lane(Side::Accept).unwrap());
    a.post(&mut VecDeque::from([Op::send(1, region(8, Rights::NONE).slice(..))]));
    assert_eq!(crate::wait(&mut *a, &mut Vec::new(), Duration::from_millis(10)), 0);
}
