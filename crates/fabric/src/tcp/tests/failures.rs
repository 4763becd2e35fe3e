//! Failures between well-behaved ends, and their timing.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::setup::{Fabric, Side};
use crate::tcp::offer::{ConnectMethod, Offer};
use crate::tcp::{Config, Tcp};
use crate::{Completion, Done, Failure, Lane, Memory, Op, Pages, Region, Rights};

const LIMIT: Duration = Duration::from_secs(20);
const MIB: usize = 1 << 20;

fn pair(config: &Config) -> (Box<dyn Lane>, Box<dyn Lane>) {
    let fabric = Tcp::new(config.clone());
    let (dial, accept) =
        (fabric.prepare_lane(Side::Dial).unwrap(), fabric.prepare_lane(Side::Accept).unwrap());
    let (to_dial, to_accept) = (accept.offer(), dial.offer());
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| accept.connect(&to_accept, LIMIT).unwrap());
        (dial.connect(&to_dial, LIMIT).unwrap(), accepted.join().unwrap())
    })
}

fn region(length: usize, rights: Rights) -> Region {
    Tcp::default().register(&Memory::allocate(length, Pages::Plain).unwrap(), rights).unwrap()
}

fn post(lane: &mut dyn Lane, ops: impl IntoIterator<Item = Op>) {
    lane.post(&mut ops.into_iter().collect::<VecDeque<Op>>());
}

fn outcome(done: &[Completion], op_id: u64) -> Result<Done, Failure> {
    done.iter().find(|done| done.op_id == op_id).expect("it was returned").outcome
}

/// Polls both until the first has `count` completions.
fn until(a: &mut dyn Lane, b: &mut dyn Lane, count: usize, pause: Duration) -> Vec<Completion> {
    let (mut done, mut others) = (Vec::new(), Vec::new());
    let started = Instant::now();
    while done.len() < count {
        assert!(started.elapsed() < LIMIT, "{done:?}");
        a.poll(&mut done);
        b.poll(&mut others);
        std::thread::sleep(pause);
    }
    done
}

#[test]
fn a_lane_that_fails_in_the_middle_of_a_frame_returns_all_operations() {
    let config = Config { receive_timeout: Duration::from_millis(300), ..Config::default() };
    let (mut a, mut b) = pair(&config);
    let (shared, source) = (region(256 * MIB, Rights::ALL), region(256 * MIB, Rights::NONE));
    let window = a.import(&b.grant(&shared).unwrap()).unwrap();
    // The first times out without a receive, while the second is being sent.
    let write = Op::write(1, source.slice(..), window.at(0));
    post(&mut *a, [Op::send(2, source.slice(..8)), write]);
    let done = until(&mut *a, &mut *b, 2, Duration::from_millis(40));
    assert_eq!(outcome(&done, 2), Err(Failure::NotReady));
    assert_eq!(outcome(&done, 1), Err(Failure::Flushed));
}

#[test]
fn a_large_write_that_is_refused_fails_with_the_reason() {
    for streams in [1, 2] {
        let (mut a, mut b) = pair(&Config { streams, ..Config::default() });
        let (shared, source) = (region(4096, Rights::ALL), region(64 * MIB, Rights::NONE));
        let window = a.import(&b.grant(&shared).unwrap()).unwrap();
        post(&mut *a, [Op::write(1, source.slice(..), window.at(0))]);
        let done = until(&mut *a, &mut *b, 1, Duration::ZERO);
        assert_eq!(outcome(&done, 1), Err(Failure::Access), "{streams} streams");
        assert_eq!(a.stats().ended(), Some(Failure::Access));
    }
}

/// After an operation is returned, its memory belongs to the caller.
#[test]
fn nothing_is_sent_from_memory_of_returned_operations() {
    let (mut a, mut b) = pair(&Config::default());
    let forbidden = b.import(&a.grant(&region(4096, Rights::ALL)).unwrap()).unwrap();
    let (source, buffer) = (region(32 * MIB, Rights::NONE), region(32 * MIB, Rights::NONE));
    post(&mut *b, [Op::receive(1, buffer.slice(..))]);
    let (mut done, mut others) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        b.poll(&mut others);
        a.poll(&mut done);
    }
    // One end sends a forbidden request, while the other is sending a message.
    post(&mut *b, [Op::read(2, buffer.slice(..0), forbidden.at(1 << 40))]);
    post(&mut *a, [Op::send(7, source.slice(..))]);
    let started = Instant::now();
    while done.is_empty() && started.elapsed() < LIMIT {
        a.poll(&mut done);
    }
    assert_eq!(outcome(&done, 7), Err(Failure::Flushed));
    source.memory().write(0, &vec![0xee; 32 * MIB]);
    while others.len() < 2 && started.elapsed() < LIMIT {
        a.poll(&mut done);
        b.poll(&mut others);
    }
    assert!(outcome(&others, 1).is_err(), "an incomplete message was received");
    assert!(buffer.slice(..).to_vec().iter().all(|byte| *byte == 0), "later bytes were sent");
}

/// The peer connects first, then eighty connections that send nothing.
#[test]
fn many_unknown_connections_do_not_prevent_the_peer() {
    let fabric = Tcp::default();
    let (accept, dial) =
        (fabric.prepare_lane(Side::Accept).unwrap(), fabric.prepare_lane(Side::Dial).unwrap());
    let (to_dial, to_accept) = (accept.offer(), dial.offer());
    let ConnectMethod::Listen(address) = Offer::from_bytes(&to_dial).unwrap().method else {
        panic!("a port")
    };
    std::thread::scope(|scope| {
        let dialled = scope.spawn(move || dial.connect(&to_dial, LIMIT).map(drop));
        std::thread::sleep(Duration::from_millis(200));
        let unknown_peers: Vec<_> = (0..80).map(|_| TcpStream::connect(address).unwrap()).collect();
        accept.connect(&to_accept, LIMIT).map(drop).unwrap();
        dialled.join().unwrap().unwrap();
        drop(unknown_peers);
    });
}

#[test]
fn infinite_timeouts_are_accepted() {
    let infinite = Duration::MAX;
    let (mut a, _b) =
        pair(&Config { receive_timeout: infinite, peer_timeout: infinite, ..Config::default() });
    post(&mut *a, [Op::send(1, region(8, Rights::NONE).slice(..))]);
    assert_eq!(crate::wait(&mut *a, &mut Vec::new(), Duration::from_millis(10)), 0);
}
