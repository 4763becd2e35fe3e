//! What unknown peers and liars get.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::setup::{Fabric, Half, Side};
use crate::tcp::connect::TcpHalf;
use crate::tcp::hello::hello;
use crate::tcp::offer::{Approach, Offer};
use crate::tcp::{Config, Tcp};
use crate::{Failure, Lane, Memory, Op, Pages, Rights};

/// A lane, and a socket at the other end of it that may say anything.
fn lane_and_liar() -> (Box<dyn Lane>, TcpStream) {
    let half = TcpHalf::new(&Config::default(), Side::Accept).unwrap();
    let ours = Offer::from_bytes(&half.offer()).unwrap();
    let liar = dialler(42);
    std::thread::scope(|scope| {
        let lane = scope.spawn(|| Box::new(half).connect(&liar.to_bytes(), LIMIT).unwrap());
        let mut socket = call(&ours, ours.token);
        let mut answer = [0; 16];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(u128::from_le_bytes(answer), 42);
        (lane.join().unwrap(), socket)
    })
}

fn dialler(token: u128) -> Offer {
    Offer { streams: 1, approach: Approach::Dials, encrypted: false, id: 0, token }
}

fn address(offer: &Offer) -> SocketAddr {
    let Approach::Listens(address) = offer.approach else { panic!("{offer:?}") };
    address
}

/// Connects and says what a peer would, with this token.
fn call(offer: &Offer, token: u128) -> TcpStream {
    let mut socket = TcpStream::connect(address(offer)).unwrap();
    socket.write_all(&hello(0, offer.id)).unwrap();
    socket.write_all(&token.to_le_bytes()).unwrap();
    socket
}

/// What the lane ends with when its peer says this.
fn end_after(sent: &[u8]) -> Failure {
    let (mut lane, mut liar) = lane_and_liar();
    let memory = Memory::allocate(64, Pages::Plain).unwrap();
    let region = Tcp::default().register(&memory, Rights::ALL).unwrap();
    let mut receive = VecDeque::from([Op::receive(1, region.slice(..))]);
    lane.post(&mut receive);
    liar.write_all(sent).unwrap();
    let mut done = Vec::new();
    crate::wait(&mut *lane, &mut done, LIMIT);
    assert_eq!(done.len(), 1, "the receive comes back");
    assert_eq!(region.slice(..).to_vec(), [0; 64], "nothing was written");
    lane.stats().ended().expect("the lane is dead")
}

/// A frame as `engine/frame.rs` describes it.
fn frame(kind: u8, number: u32, length: u64, ack: u32) -> Vec<u8> {
    let mut frame = vec![0; if matches!(kind, 1 | 4 | 6 | 7) { 64 } else { 24 }];
    frame[0] = kind;
    frame[4..8].copy_from_slice(&number.to_le_bytes());
    frame[8..16].copy_from_slice(&length.to_le_bytes());
    frame[16..20].copy_from_slice(&ack.to_le_bytes());
    frame
}

#[test]
fn lies_end_the_lane_with_their_name() {
    for lie in [
        vec![0xff; 64],
        frame(10, 0, 0, 1),      // acknowledges what was never sent
        frame(5, 0, 8, 0),       // answers what was never asked
        frame(8, 0, 0, 0),       // the same for an atomic operation
        frame(5, 9999, 8, 0),    // for an operation that never was
        frame(3, 0, 1 << 50, 0), // immediate data of a write that nobody could do
    ] {
        assert_eq!(end_after(&lie), Failure::ProtocolError, "{lie:?}");
    }
    // A second message, where one receive was posted.
    let two = [frame(2, 0, 0, 0), frame(2, 0, 0, 0)].concat();
    let (mut lane, mut liar) = lane_and_liar();
    liar.write_all(&two).unwrap();
    crate::wait(&mut *lane, &mut Vec::new(), Duration::from_millis(200));
    assert_eq!(lane.stats().ended(), Some(Failure::ProtocolError));
}

#[test]
fn a_write_without_a_key_is_refused_and_said() {
    assert_eq!(end_after(&frame(1, 0, 8, 0)), Failure::Access);
    let (mut lane, mut liar) = lane_and_liar();
    liar.write_all(&frame(4, 7, 8, 0)).unwrap();
    crate::wait(&mut *lane, &mut Vec::new(), Duration::from_millis(200));
    let mut answer = [0; 24];
    liar.read_exact(&mut answer).unwrap();
    assert_eq!((answer[0], answer[4], answer[8]), (9, 7, 1), "failed, question 7, no access");
    assert_eq!(liar.read(&mut answer).unwrap(), 0, "and that was the last word");
}

/// Its last word finds no room, and more keeps coming: a dead lane is not woken for that.
#[test]
fn a_dead_lane_sleeps_whatever_the_peer_does() {
    let (mut lane, mut liar) = lane_and_liar();
    let memory = Memory::allocate(64 << 20, Pages::Plain).unwrap();
    let region = Tcp::default().register(&memory, Rights::ALL).unwrap();
    let key = lane.grant(&region).unwrap().key;
    let read = |key: u128| {
        let mut frame = frame(4, 1, 64 << 20, 0);
        frame[24..40].copy_from_slice(&key.to_le_bytes());
        frame
    };
    let mut done = Vec::new();
    liar.write_all(&read(key)).unwrap();
    crate::wait(&mut *lane, &mut done, Duration::from_millis(200));
    liar.write_all(&read(key ^ 1 << 90)).unwrap();
    crate::wait(&mut *lane, &mut done, Duration::from_millis(200));
    assert_eq!(lane.stats().ended(), Some(Failure::Access));
    let _ = liar.write_all(&[0; 24]);
    std::thread::sleep(Duration::from_millis(50));
    assert!(lane.arm());
    let mut fds = [PollFd::from_borrowed_fd(lane.fd(), PollFlags::IN)];
    let ready = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
    assert_eq!(ready, 0, "nothing to wake up for");
}

#[test]
fn half_a_frame_hurts_nobody() {
    let (mut lane, mut liar) = lane_and_liar();
    liar.write_all(&frame(10, 0, 0, 0)[..23]).unwrap();
    assert_eq!(crate::wait(&mut *lane, &mut Vec::new(), Duration::from_millis(50)), 0);
    assert_eq!(lane.stats().ended(), None);
    drop(liar);
    crate::wait(&mut *lane, &mut Vec::new(), Duration::from_millis(200));
    assert_eq!(lane.stats().ended(), Some(Failure::PeerGone));
}

/// Unknown peers connect first and say nothing, or something wrong; the peer gets through all the same.
#[test]
fn unknown_peers_do_not_keep_the_peer_out() {
    let fabric = Tcp::default();
    let (accept, dial) = (fabric.half(Side::Accept).unwrap(), fabric.half(Side::Dial).unwrap());
    let (to_dial, to_accept) = (accept.offer(), dial.offer());
    let offer = Offer::from_bytes(&to_dial).unwrap();
    let silent: Vec<TcpStream> =
        (0..5).map(|_| TcpStream::connect(address(&offer)).unwrap()).collect();
    // Whom to call is no secret; the token is.
    let wrong =
        [call(&Offer { id: 1, ..offer.clone() }, offer.token), call(&offer, offer.token ^ 1)];
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| accept.connect(&to_accept, LIMIT).map(drop));
        dial.connect(&to_dial, LIMIT).unwrap();
        accepted.join().unwrap().unwrap();
    });
    assert!(begun.elapsed() < LIMIT);
    for mut wrong in wrong {
        assert!(!matches!(wrong.read(&mut [0; 16]), Ok(1..)), "an unknown peer is told nothing");
    }
    drop(silent);
}

#[test]
fn who_does_not_come_is_said_within_the_limit() {
    let half = Tcp::default().half(Side::Accept).unwrap();
    let peer = dialler(1).to_bytes();
    let Err(error) = half.connect(&peer, Duration::from_millis(50)) else { panic!("nobody came") };
    assert!(error.to_string().contains("the peer did not come in time"), "{error}");
    let half = Tcp::default().half(Side::Dial).unwrap();
    let Err(error) = half.connect(&peer, LIMIT) else { panic!("both dial") };
    assert!(error.to_string().contains("both ends dial"), "{error}");
}

const LIMIT: Duration = Duration::from_secs(20);
