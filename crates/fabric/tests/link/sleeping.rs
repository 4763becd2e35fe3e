//! A caller that sleeps on a link is woken by the peer, not by a timer.

use std::time::{Duration, Instant};

use fabric::link::{EndpointSettings, Link, Transport};
use fabric::{Done, Op, Region, Rights, wait};

use crate::pair::{LIMIT, LinkPair, only, post};

const ROUNDS: u64 = 2000;

/// No timer expires for a long time, so that a lost wake-up is noticed.
fn quiet(transport: Transport) -> EndpointSettings {
    let mut settings = only(&[transport]);
    settings.link.heartbeat = Duration::from_secs(600);
    settings.link.peer_timeout = Duration::from_secs(1200);
    settings.link.op_timeout = Duration::from_secs(600);
    settings
}

/// Waits for the next message; other completions are ignored.
fn receive(link: &mut Link, into: &Region) -> u64 {
    loop {
        let (mut done, started) = (Vec::new(), Instant::now());
        wait(link, &mut done, LIMIT);
        // A message is also found when the time is up.
        assert!(started.elapsed() < LIMIT, "a wake-up was lost; {done:?}, {:?}", link.ended());
        for completion in done {
            if let Done::Received { length, .. } = completion.outcome.unwrap() {
                assert_eq!(length, 8);
                return into.memory().load(0);
            }
        }
    }
}

fn send(link: &mut Link, source: &Region, into: &Region, number: u64) {
    source.memory().store(0, number);
    post(link, [Op::receive(1, into.slice(..)), Op::send(2, source.slice(..))]);
}

fn ping_pong(transport: Transport, pause: fn(u64)) {
    let pair = LinkPair::new(quiet(transport), quiet(transport));
    assert_eq!(pair.transport(), transport.name());
    let regions = |end| [0, 1].map(|_| pair.region(end, 8, Rights::NONE));
    let ([ping, into_ping], [pong, into_pong]) = (regions(0), regions(1));
    let LinkPair { mut initiator, mut accepted, listener, ends } = pair;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            post(&mut accepted, [Op::receive(1, into_pong.slice(..))]);
            for round in 0..ROUNDS {
                assert_eq!(receive(&mut accepted, &into_pong), round);
                pause(round);
                send(&mut accepted, &pong, &into_pong, round + 1);
            }
            // The last message may need this end to poll.
            let mut done = Vec::new();
            while accepted.ended().is_none() {
                wait(&mut accepted, &mut done, Duration::from_millis(10));
            }
        });
        for round in 0..ROUNDS {
            send(&mut initiator, &ping, &into_ping, round);
            assert_eq!(receive(&mut initiator, &into_ping), round + 1);
        }
        drop(initiator);
    });
    drop((listener, ends));
}

#[test]
fn two_thousand_wake_ups_over_shared_memory() {
    ping_pong(Transport::Shm, |_| ());
}

#[test]
fn two_thousand_wake_ups_over_tcp() {
    ping_pong(Transport::Tcp, |_| ());
}

/// With pauses of about the time that `wait` spins before it sleeps, where wake-ups are lost most easily.
#[test]
fn two_thousand_wake_ups_just_before_the_other_sleeps() {
    let pause = |round: u64| {
        let started = Instant::now();
        while started.elapsed() < Duration::from_micros(round % 60) {}
    };
    ping_pong(Transport::Shm, pause);
    ping_pong(Transport::Tcp, pause);
}
