//! Who sleeps on a link is woken by the peer, not by a clock.

use std::time::{Duration, Instant};

use fabric::link::{Class, Link, Settings};
use fabric::{Done, Op, Region, Rights, wait};

use crate::pair::{LIMIT, Two, only, post};

const ROUNDS: u64 = 2000;

/// Nothing is due by itself for a long time: a wake-up that is lost is missed.
fn quiet(class: Class) -> Settings {
    let mut settings = only(&[class]);
    settings.link.heartbeat = Duration::from_secs(600);
    settings.link.silence = Duration::from_secs(1200);
    settings.link.op_timeout = Duration::from_secs(600);
    settings
}

/// Waits for the next message; what else is over meanwhile is thrown away.
fn hear(link: &mut Link, room: &Region) -> u64 {
    loop {
        let (mut done, begun) = (Vec::new(), Instant::now());
        wait(link, &mut done, LIMIT);
        // What came is found when the time is up, too.
        assert!(begun.elapsed() < LIMIT, "a wake-up was lost; {done:?}, {:?}", link.ended());
        for completion in done {
            if let Done::Received { length, .. } = completion.outcome.unwrap() {
                assert_eq!(length, 8);
                return room.memory().load(0);
            }
        }
    }
}

fn say(link: &mut Link, source: &Region, room: &Region, number: u64) {
    source.memory().store(0, number);
    post(link, [Op::receive(1, room.slice(..)), Op::send(2, source.slice(..))]);
}

fn ping_pong(class: Class, pause: fn(u64)) {
    let two = Two::new(quiet(class), quiet(class));
    assert_eq!(two.lane(), class.name());
    let regions = |end| [0, 1].map(|_| two.region(end, 8, Rights::NONE));
    let ([ping, into], [pong, room]) = (regions(0), regions(1));
    let Two { mut dialler, mut acceptor, listener, ends } = two;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            post(&mut acceptor, [Op::receive(1, room.slice(..))]);
            for round in 0..ROUNDS {
                let heard = hear(&mut acceptor, &room);
                assert_eq!(heard, round);
                pause(round);
                say(&mut acceptor, &pong, &room, round + 1);
            }
            // The last word may need this end to go out.
            let mut done = Vec::new();
            while acceptor.ended().is_none() {
                wait(&mut acceptor, &mut done, Duration::from_millis(10));
            }
        });
        for round in 0..ROUNDS {
            say(&mut dialler, &ping, &into, round);
            assert_eq!(hear(&mut dialler, &into), round + 1);
        }
        drop(dialler);
    });
    drop((listener, ends));
}

#[test]
fn two_thousand_wake_ups_over_shared_memory() {
    ping_pong(Class::Shm, |_| ());
}

#[test]
fn two_thousand_wake_ups_over_tcp() {
    ping_pong(Class::Tcp, |_| ());
}

/// With pauses of about the time that `wait` looks before it sleeps, where wake-ups are lost most easily.
#[test]
fn two_thousand_wake_ups_just_as_the_other_falls_asleep() {
    let pause = |round: u64| {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(round % 60) {}
    };
    ping_pong(Class::Shm, pause);
    ping_pong(Class::Tcp, pause);
}
