//! Lanes with packets.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fabric::{Lane, Op, Packet, PacketCounts, Rights, Slice};

use crate::pair::{End, Pair, TIMEOUT, step_until};

pub(crate) fn packets_of_every_size_arrive_once_and_in_order(mut pair: Pair) {
    accept(&mut pair);
    let sizes = [0, 1, 63, 64, 65, 200, 256, 4096, 40_000, MAX_LENGTH - HEAD];
    let body = Body::new(&pair, MAX_LENGTH);
    for (number, size) in (0..300).zip(sizes.into_iter().cycle()) {
        body.send(&mut pair, number, size);
    }
    let received = receive(&mut pair, 300);
    for (number, (packet, size)) in (0..).zip(received.iter().zip(sizes.into_iter().cycle())) {
        assert_eq!(packet[..HEAD], u64::to_le_bytes(number), "once and in order");
        assert!(packet[HEAD..] == *body.bytes(number, size), "its {size} bytes");
    }
    until_delivered(&mut pair, 300);
}

/// With the header of its frame and the mark of a record, each packet fills five cache lines; so one of them ends where the ring does.
pub(crate) fn packets_that_fill_a_ring_exactly_arrive(mut pair: Pair) {
    accept(&mut pair);
    let body = Body::new(&pair, 280);
    for number in 0..4200 {
        body.send(&mut pair, number, 280);
        let received = receive(&mut pair, 1);
        assert_eq!(received[0][..HEAD], number.to_le_bytes());
        assert!(received[0][HEAD..] == *body.bytes(number, 280), "packet {number}");
    }
}

/// The sender's stream is full, so the rest is queued there.
pub(crate) fn many_packets_wait_for_a_peer_that_does_not_poll(mut pair: Pair) {
    accept(&mut pair);
    let body = Body::new(&pair, 8192);
    for number in 0..1000 {
        body.send(&mut pair, number, 8192);
    }
    let received = receive(&mut pair, 1000);
    let numbers = received.iter().map(|packet| packet[..HEAD].try_into().expect("a number"));
    assert!(numbers.map(u64::from_le_bytes).eq(0..1000));
    until_delivered(&mut pair, 1000);
}

pub(crate) fn a_packet_arrives_after_the_writes_before_it(mut pair: Pair) {
    accept(&mut pair);
    let (region, window) = pair.shared(8, Rights::ALL);
    let from = pair.a.region(8, Rights::NONE);
    for round in 0..200_u64 {
        from.memory().write(0, &round.to_le_bytes());
        let mut writes = VecDeque::from([Op::write(round, from.slice(..), window.at(0))]);
        let head = round.to_le_bytes();
        let packet = Packet { head: &head, body: &[], offset: 0, length: 0 };
        let packets = pair.a.lane.packets().expect("it has packets");
        assert!(packets.send(&mut writes, packet));
        packets.flush();
        let received = receive(&mut pair, 1);
        let mut there = [0; 8];
        region.memory().read(0, &mut there);
        assert_eq!((&received[0][..], there), (&head[..], head));
        pair.completion();
    }
}

pub(crate) fn a_packet_that_is_too_long_ends_the_lane(mut pair: Pair) {
    accept(&mut pair);
    Body::new(&pair, MAX_LENGTH).send(&mut pair, 0, MAX_LENGTH - HEAD + 1);
    assert_ends(&mut pair);
}

pub(crate) fn a_packet_that_nobody_accepts_ends_the_lane(mut pair: Pair) {
    Body::new(&pair, 8).send(&mut pair, 0, 8);
    assert_ends(&mut pair);
}

pub(crate) fn an_empty_packet_that_nobody_accepts_ends_the_lane(mut pair: Pair) {
    let packets = pair.a.lane.packets().expect("it has packets");
    let empty = Packet { head: &[], body: &[], offset: 0, length: 0 };
    assert!(packets.send(&mut VecDeque::new(), empty));
    packets.flush();
    assert_ends(&mut pair);
}

pub(crate) fn the_end_of_a_lane_is_reported_behind_its_packets(mut pair: Pair) {
    accept(&mut pair);
    Body::new(&pair, 64).send(&mut pair, 0, 64);
    until_delivered(&mut pair, 1);
    pair.a.lane.close();
    let mut received = Vec::new();
    let started = Instant::now();
    while poll_packets(&mut pair.b, &mut received).ended.is_none() {
        assert!(started.elapsed() < TIMEOUT, "the end was not reported");
        pair.poll_both();
        // A simulated peer that closes says nothing: an operation finds out.
        let send = Op::send(1, pair.b.region(8, Rights::NONE).slice(..));
        pair.b.lane.post(&mut VecDeque::from([send]));
    }
    assert_eq!(received.len(), 1, "the packet is not lost");
}

pub(crate) fn a_sleeping_end_is_woken_by_a_packet(mut pair: Pair) {
    accept(&mut pair);
    for _ in 0..100 {
        pair.poll_both();
    }
    let Pair { mut a, mut b, mut step, .. } = pair;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| step_until(&mut *step, &ended));
        let sleeper = scope.spawn(move || {
            let (mut received, started) = (Vec::new(), Instant::now());
            while received.is_empty() && started.elapsed() < TIMEOUT {
                poll_packets(&mut b, &mut received);
                if received.is_empty() && b.lane.arm() {
                    sleep(&*b.lane);
                }
            }
            received.len()
        });
        std::thread::sleep(Duration::from_millis(200));
        let packets = a.lane.packets().expect("it has packets");
        let packet = Packet { head: b"wake up!", body: &[], offset: 0, length: 0 };
        assert!(packets.send(&mut VecDeque::new(), packet));
        packets.flush();
        let count = sleeper.join().expect("no panic");
        ended.store(true, Ordering::Relaxed);
        assert_eq!(count, 1);
    });
}

fn sleep(lane: &dyn Lane) {
    let mut fds =
        [rustix::event::PollFd::from_borrowed_fd(lane.fd(), rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec::try_from(TIMEOUT).expect("some seconds");
    let _ = rustix::event::poll(&mut fds, Some(&limit));
}

fn accept(pair: &mut Pair) {
    for end in [&mut pair.a, &mut pair.b] {
        end.lane.packets().expect("it has packets").accept(MAX_LENGTH);
    }
}

/// What packets are sent from: memory in one slice, and the same in two.
struct Body {
    whole: [Slice; 1],
    halves: [Slice; 2],
    pattern: Vec<u8>,
}

impl Body {
    fn new(pair: &Pair, length: usize) -> Body {
        let pattern: Vec<u8> = (0..length + OFFSETS).map(|at| (at * 31 % 251) as u8).collect();
        let region = pair.a.region_with(&pattern);
        let middle = pattern.len() / 3;
        let halves = [region.slice(..middle), region.slice(middle..)];
        Body { whole: [region.slice(..)], halves, pattern }
    }

    /// What a packet contains.
    fn bytes(&self, number: u64, size: usize) -> &[u8] {
        let begin = number as usize % OFFSETS;
        &self.pattern[begin..begin + size]
    }

    /// Sends one with this number and this many other bytes.
    fn send(&self, pair: &mut Pair, number: u64, size: usize) {
        let head = number.to_le_bytes();
        let offset = number as usize % OFFSETS;
        let body = if number.is_multiple_of(2) { &self.halves[..] } else { &self.whole[..] };
        let packet = Packet { head: &head, body, offset, length: size };
        let packets = pair.a.lane.packets().expect("it has packets");
        assert!(packets.send(&mut VecDeque::new(), packet));
        packets.flush();
    }
}

/// Polls both ends until this many packets have arrived.
fn receive(pair: &mut Pair, count: usize) -> Vec<Vec<u8>> {
    let (mut received, started) = (Vec::new(), Instant::now());
    while received.len() < count {
        assert!(started.elapsed() < TIMEOUT, "{} of {count} packets", received.len());
        pair.poll_both();
        poll_packets(&mut pair.b, &mut received);
        poll_packets(&mut pair.a, &mut Vec::new());
    }
    assert_eq!(received.len(), count);
    received
}

/// Polls a lane; appends the packets that have arrived.
fn poll_packets(end: &mut End, received: &mut Vec<Vec<u8>>) -> PacketCounts {
    end.lane.packets().expect("it has packets").poll(received, &mut end.done)
}

fn until_delivered(pair: &mut Pair, count: u64) {
    let started = Instant::now();
    while poll_packets(&mut pair.a, &mut Vec::new()).delivered < count {
        assert!(started.elapsed() < TIMEOUT, "they were not delivered");
        pair.poll_both();
    }
    assert_eq!(poll_packets(&mut pair.a, &mut Vec::new()).delivered, count);
}

/// Both ends report that the lane has ended, and no packet arrives.
fn assert_ends(pair: &mut Pair) {
    let started = Instant::now();
    loop {
        let mut received = Vec::new();
        let ended = [&mut pair.a, &mut pair.b].map(|end| poll_packets(end, &mut received).ended);
        assert!(received.is_empty(), "a packet that must not arrive");
        if ended.iter().all(Option::is_some) {
            return;
        }
        assert!(started.elapsed() < TIMEOUT, "{ended:?}");
        pair.poll_both();
    }
}

/// The number at the start of a packet.
const HEAD: usize = 8;
/// Packets start at different offsets of their memory.
const OFFSETS: usize = 7;
const MAX_LENGTH: usize = 100_000;
