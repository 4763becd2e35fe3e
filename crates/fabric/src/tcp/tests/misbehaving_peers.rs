//! Unknown connections and misbehaving peers.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::setup::{Fabric, Side, UnconnectedLane};
use crate::tcp::connect::UnconnectedTcpLane;
use crate::tcp::offer::{ConnectMethod, Offer};
use crate::tcp::stream_header::stream_header;
use crate::tcp::{Config, Tcp};
use crate::{Failure, Lane, Memory, Op, Pages, Rights};

/// A lane, and a raw socket at its other end.
fn lane_and_misbehaving_peer() -> (Box<dyn Lane>, TcpStream) {
    let unconnected = UnconnectedTcpLane::new(&Config::default(), Side::Accept).unwrap();
    let ours = Offer::from_bytes(&unconnected.offer()).unwrap();
    let peer = dialler(42);
    std::thread::scope(|scope| {
        let lane = scope.spawn(|| Box::new(unconnected).connect(&peer.to_bytes(), LIMIT).unwrap());
        let mut socket = call(&ours, ours.secret);
        let mut answer = [0; 16];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(u128::from_le_bytes(answer), 42);
        (lane.join().unwrap(), socket)
    })
}

fn dialler(secret: u128) -> Offer {
    Offer { streams: 1, method: ConnectMethod::Dial, encrypted: false, id: 0, secret }
}

fn address(offer: &Offer) -> SocketAddr {
    let ConnectMethod::Listen(address) = offer.method else { panic!("{offer:?}") };
    address
}

/// Connects like a peer, with this secret.
fn call(offer: &Offer, secret: u128) -> TcpStream {
    let mut socket = TcpStream::connect(address(offer)).unwrap();
    socket.write_all(&stream_header(0, offer.id)).unwrap();
    socket.write_all(&secret.to_le_bytes()).unwrap();
    socket
}

/// The failure of a lane whose peer sends these bytes.
fn end_after(sent: &[u8]) -> Failure {
    let (mut lane, mut peer) = lane_and_misbehaving_peer();
    let memory = Memory::allocate(64, Pages::Plain).unwrap();
    let region = Tcp::default().register(&memory, Rights::ALL).unwrap();
    let mut receive = VecDeque::from([Op::receive(1, region.slice(..))]);
    lane.post(&mut receive);
    peer.write_all(sent).unwrap();
    let mut done = Vec::new();
    crate::wait(&mut *lane, &mut done, LIMIT);
    assert_eq!(done.len(), 1, "the receive was not returned");
    assert_eq!(region.slice(..).to_vec(), [0; 64], "memory was written");
    lane.stats().ended().expect("the lane is dead")
}

/// A frame as `stream_engine/frame.rs` describes it.
fn frame(kind: u8, number: u32, length: u64, ack: u32) -> Vec<u8> {
    let mut frame = vec![0; if matches!(kind, 1 | 4 | 6 | 7) { 64 } else { 24 }];
    frame[0] = kind;
    frame[4..8].copy_from_slice(&number.to_le_bytes());
    frame[8..16].copy_from_slice(&length.to_le_bytes());
    frame[16..20].copy_from_slice(&ack.to_le_bytes());
    frame
}

#[test]
fn invalid_frames_are_protocol_errors() {
    for bytes in [
        vec![0xff; 64],
        frame(10, 0, 0, 1),      // acknowledges a frame that was never sent
        frame(5, 0, 8, 0),       // answers a request that was never sent
        frame(8, 0, 0, 0),       // the same for an atomic operation
        frame(5, 9999, 8, 0),    // for an operation that never existed
        frame(3, 0, 1 << 50, 0), // immediate data of an impossible write
    ] {
        assert_eq!(end_after(&bytes), Failure::ProtocolError, "{bytes:?}");
    }
    // Two messages without a receive.
    let two = [frame(2, 0, 0, 0), frame(2, 0, 0, 0)].concat();
    let (mut lane, mut peer) = lane_and_misbehaving_peer();
    peer.write_all(&two).unwrap();
    crate::wait(&mut *lane, &mut Vec::new(), Duration::from_millis(200));
    assert_eq!(lane.stats().ended(), Some(Failure::ProtocolError));
}

#[test]
fn a_request_without_a_key_is_refused_with_a_reason() {
    assert_eq!(end_after(&frame(1, 0, 8, 0)), Failure::Access);
    let (mut lane, mut peer) = lane_and_misbehaving_peer();
    peer.write_all(&frame(4, 7, 8, 0)).unwrap();
    crate::wait(&mut *lane, &mut Vec::new(), Duration::from_millis(200));
    let mut answer = [0; 24];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!((answer[0], answer[4], answer[8]), (9, 7, 1), "Fail, request 7, access");
    assert_eq!(peer.read(&mut answer).unwrap(), 0, "nothing follows");
}

/// The reason cannot be sent, and more data arrives: a dead lane is not woken for that.
#[test]
fn a_dead_lane_is_not_woken_by_data() {
    let (mut lane, mut peer) = lane_and_misbehaving_peer();
    let memory = Memory::allocate(64 << 20, Pages::Plain).unwrap();
    let region = Tcp::default().register(&memory, Rights::ALL).unwrap();
    let key = lane.grant(&region).unwrap().key;
    let read = |key: u128| {
        let mut frame = frame(4, 1, 64 << 20, 0);
        frame[24..40].copy_from_slice(&key.to_le_bytes());
        frame
    };
    let mut done = Vec::new();
    peer.write_all(&read(key)).unwrap();
    crate::wait(&mut *lane, &mut done, Duration::from_millis(200));
    peer.write_all(&read(key ^ 1 << 90)).unwrap();
    crate::wait(&mut *lane, &mut done, Duration::from_millis(200));
    assert_eq!(lane.stats().ended(), Some(Failure::Access));
    let _ = peer.write_all(&[0; 24]);
    std::thread::sleep(Duration::from_millis(50));
    assert!(lane.arm());
    let mut fds = [PollFd::from_borrowed_fd(lane.fd(), PollFlags::IN)];
    let ready = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
    assert_eq!(ready, 0, "the descriptor is readable");
}

#[test]
fn an_incomplete_frame_is_no_error() {
    let (mut lane, mut peer) = lane_and_misbehaving_peer();
    peer.write_all(&frame(10, 0, 0, 0)[..23]).unwrap();
    assert_eq!(crate::wait(&mut *lane, &mut Vec::new(), Duration::from_millis(50)), 0);
    assert_eq!(lane.stats().ended(), None);
    drop(peer);
    crate::wait(&mut *lane, &mut Vec::new(), Duration::from_millis(200));
    assert_eq!(lane.stats().ended(), Some(Failure::PeerGone));
}

/// Unknown connections come first and send nothing, or something invalid; the peer can still connect.
#[test]
fn unknown_connections_do_not_prevent_the_peer() {
    let fabric = Tcp::default();
    let (accept, dial) =
        (fabric.prepare_lane(Side::Accept).unwrap(), fabric.prepare_lane(Side::Dial).unwrap());
    let (to_dial, to_accept) = (accept.offer(), dial.offer());
    let offer = Offer::from_bytes(&to_dial).unwrap();
    let silent: Vec<TcpStream> =
        (0..5).map(|_| TcpStream::connect(address(&offer)).unwrap()).collect();
    // An id is visible on the network: it must not be enough.
    let wrong =
        [call(&Offer { id: 1, ..offer.clone() }, offer.secret), call(&offer, offer.secret ^ 1)];
    let started = Instant::now();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| accept.connect(&to_accept, LIMIT).map(drop));
        dial.connect(&to_dial, LIMIT).unwrap();
        accepted.join().unwrap().unwrap();
    });
    assert!(started.elapsed() < LIMIT);
    for mut wrong in wrong {
        assert!(!matches!(wrong.read(&mut [0; 16]), Ok(1..)), "an unknown peer got an answer");
    }
    drop(silent);
}

#[test]
fn connect_fails_after_the_time_limit() {
    let unconnected = Tcp::default().prepare_lane(Side::Accept).unwrap();
    let peer = dialler(1).to_bytes();
    let Err(error) = unconnected.connect(&peer, Duration::from_millis(50)) else {
        panic!("no peer connected")
    };
    assert!(error.to_string().contains("the peer did not connect in time"), "{error}");
    let unconnected = Tcp::default().prepare_lane(Side::Dial).unwrap();
    let Err(error) = unconnected.connect(&peer, LIMIT) else { panic!("both dial") };
    assert!(error.to_string().contains("both ends dial"), "{error}");
}

const LIMIT: Duration = Duration::from_secs(20);
