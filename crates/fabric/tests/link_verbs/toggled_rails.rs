//! Many operations of every kind while rails are cut and repaired: each takes effect once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fabric::link::EventKind;
use fabric::{Op, Work};

use crate::local_end::{LocalEnd, wire};
use crate::peer::Peer;

const SIZE: usize = 64 << 20;

/// How long a rail may take to go down for the first time.
const LIMIT: Duration = Duration::from_secs(300);

/// How long rails are toggled; `cargo xtask test --full` sets a minute.
fn duration() -> Duration {
    let seconds = std::env::var("WIRELANE_TEST_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(10))
}

#[test]
fn rails_go_up_and_down() {
    let peer = Peer::start(SIZE);
    let mut local = LocalEnd::connect(&peer, SIZE);
    local.fill(1);
    let stop = AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        scope.spawn(|| toggle(&stop));
        let counts = work(&mut local);
        stop.store(true, Ordering::Relaxed);
        counts
    });
    local.finish();
    let Counts { messages, numbers, additions } = counts;
    let seen = local.ask(b"seen:   ", &[]);
    assert_eq!(seen, [messages, 0, numbers, 0], "messages, out of order; immediate data, not once");
    let counter = local.source.slice(..8);
    local.post([Op::read(0, counter.clone(), local.window.at(0))]);
    local.finish();
    let count = u64::from_le_bytes(counter.to_vec().try_into().unwrap());
    assert_eq!(count, additions);
    let downs = local.link.report().status().counts;
    eprintln!("{messages} messages, {numbers} immediate data, {additions} additions; {downs:?}");
    assert!(!local.events(EventKind::RailDown).is_empty(), "at least one rail went down");
    // The first MiB is for counters, the second for writes with immediate data.
    local.verify(1, 2, (SIZE >> 20) - 2);
}

struct Counts {
    messages: u64,
    numbers: u64,
    additions: u64,
}

/// Cuts and repairs one rail or both, every second.
fn toggle(stop: &AtomicBool) {
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
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

fn work(local: &mut LocalEnd) -> Counts {
    let started = Instant::now();
    let mut counts = Counts { messages: 0, numbers: 0, additions: 0 };
    let mut large = 2;
    // On a slow machine a cut may be over before a rail has noticed it, or hit one that is being set up: go on until one was down.
    let is_over = |local: &LocalEnd| {
        let has_been_down = !local.events(EventKind::RailDown).is_empty();
        started.elapsed() >= if has_been_down { duration() } else { LIMIT }
    };
    while !is_over(local) {
        local.until("capacity", |local| local.in_flight < 48);
        local.number(counts.messages);
        counts.messages += 1;
        for length in [64, 8192, 100_000] {
            let from = local.source.slice(1 << 20..(1 << 20) + length);
            let to = local.window.at(1 << 20);
            local.post([Op::write_imm(1, from, to, counts.numbers as u32)]);
            counts.numbers += 1;
        }
        let at = local.window.at(0);
        local.post([Op { op_id: 2, work: Work::FetchAdd { old: local.old.clone(), at, add: 1 } }]);
        counts.additions += 1;
        let begin = large << 20;
        local.post([Op::write(
            3,
            local.source.slice(begin..begin + (2 << 20)),
            local.window.at(begin as u64),
        )]);
        large = if large + 4 > SIZE >> 20 { 2 } else { large + 2 };
    }
    // Everything again, since the last round may be incomplete.
    for begin in (2 << 20..SIZE).step_by(1 << 20) {
        local.post([Op::write(
            4,
            local.source.slice(begin..begin + (1 << 20)),
            local.window.at(begin as u64),
        )]);
    }
    counts
}
