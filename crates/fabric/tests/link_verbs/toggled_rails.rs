//! Many operations of every kind while rails go up and down: each takes effect once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fabric::link::Happening;
use fabric::{Op, Work};

use crate::local_end::{Near, wire};
use crate::peer::Peer;

const SIZE: usize = 64 << 20;

/// How long rails are toggled; `cargo xtask test --full` makes it a minute.
fn duration() -> Duration {
    let seconds = std::env::var("WIRELANE_TEST_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(10))
}

#[test]
fn rails_go_up_and_down() {
    let peer = Peer::start(SIZE);
    let mut near = Near::connect(&peer, SIZE);
    near.fill(1);
    let over = AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        scope.spawn(|| toggle(&over));
        let counts = work(&mut near);
        over.store(true, Ordering::Relaxed);
        counts
    });
    near.finish();
    let Counts { messages, numbers, additions } = counts;
    let seen = near.ask(b"seen:   ", &[]);
    assert_eq!(seen, [messages, 0, numbers, 0], "messages, out of order; numbers, not once");
    let counter = near.source.slice(..8);
    near.post([Op::read(0, counter.clone(), near.window.at(0))]);
    near.finish();
    let count = u64::from_le_bytes(counter.to_vec().try_into().unwrap());
    assert_eq!(count, additions);
    let downs = near.link.report().explain().counts;
    eprintln!("{messages} messages, {numbers} numbers, {additions} additions; {downs:?}");
    assert!(!near.events(Happening::RailDown).is_empty(), "something went wrong, as it should");
    // The first MiB is for counters, the second for numbers.
    near.verify(1, 2, (SIZE >> 20) - 2);
}

struct Counts {
    messages: u64,
    numbers: u64,
    additions: u64,
}

/// One rail or both go down and up, each second.
fn toggle(over: &AtomicBool) {
    let mut round = 0;
    while !over.load(Ordering::Relaxed) {
        let rails: &[u32] = match round % 6 {
            0 | 3 => &[0],
            1 | 4 => &[1],
            2 => &[0, 1],
            _ => &[],
        };
        rails.iter().for_each(|rail| wire(&format!("cut {rail}")));
        std::thread::sleep(Duration::from_secs(1));
        rails.iter().for_each(|rail| wire(&format!("repair {rail}")));
        std::thread::sleep(Duration::from_millis(if round % 6 == 5 { 3000 } else { 500 }));
        round += 1;
    }
}

fn work(near: &mut Near) -> Counts {
    let begun = Instant::now();
    let mut counts = Counts { messages: 0, numbers: 0, additions: 0 };
    let mut large = 2;
    while begun.elapsed() < duration() {
        near.until("room", |near| near.in_flight < 48);
        near.number(counts.messages);
        counts.messages += 1;
        for length in [64, 8192, 100_000] {
            let from = near.source.slice(1 << 20..(1 << 20) + length);
            let to = near.window.at(1 << 20);
            near.post([Op::write_imm(1, from, to, counts.numbers as u32)]);
            counts.numbers += 1;
        }
        let at = near.window.at(0);
        near.post([Op { token: 2, work: Work::FetchAdd { old: near.old.clone(), at, add: 1 } }]);
        counts.additions += 1;
        let begin = large << 20;
        near.post([Op::write(
            3,
            near.source.slice(begin..begin + (2 << 20)),
            near.window.at(begin as u64),
        )]);
        large = if large + 4 > SIZE >> 20 { 2 } else { large + 2 };
    }
    // All that was not written in the last round.
    for begin in (2 << 20..SIZE).step_by(1 << 20) {
        near.post([Op::write(
            4,
            near.source.slice(begin..begin + (1 << 20)),
            near.window.at(begin as u64),
        )]);
    }
    counts
}
