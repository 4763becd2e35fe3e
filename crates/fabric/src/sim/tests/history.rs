//! Random histories: invariants, and reproducibility.

use super::*;
use crate::sim::Faults;
use crate::sim::random::Random;
use crate::{OpKind, Slices, Work};

const OPS: u64 = 60;
const SLOT: usize = 16;

/// The completions of `a` and `b` with their times, and the peer's memory at the end.
#[derive(Debug, PartialEq)]
struct History {
    a: Vec<(Duration, Outcome)>,
    b: Vec<(Duration, Outcome)>,
    /// Ids of writes that succeeded.
    written: Vec<u64>,
    /// Immediate data whose sender got a success.
    confirmed: Vec<u64>,
    memory: Vec<u8>,
}

/// Random operations with random faults. Each write has its own slot, filled with its id.
fn history(seed: u64) -> History {
    let mut random = Random::new(!seed);
    let config = Config { depth: 8, ordered: false, ..Config::default() };
    let mut pair = Pair::on(&World::with_config(seed, config), WIRE);
    pair.world.change(WIRE, |faults| *faults = random_faults(&mut random));
    let (target, window) = pair.window(OPS as usize * SLOT, Rights::ALL);
    let buffers = Buffers::new();
    let mut ops: VecDeque<Op> =
        (0..OPS).map(|op_id| buffers.op(op_id, &mut random, &window)).collect();
    let receives = (0..OPS).map(|op_id| Op::receive(op_id, part(&buffers.received, op_id)));
    assert_eq!(pair.b.post(&mut receives.collect()), OPS as usize);
    let mut history =
        History { a: vec![], b: vec![], written: vec![], confirmed: vec![], memory: vec![] };
    let mut rounds = 0;
    loop {
        pair.a.post(&mut ops);
        collect(&mut pair, &mut history);
        if !pair.world.step() && ops.is_empty() {
            break;
        }
        rounds += 1;
        assert!(rounds < 100_000, "seed {seed} does not end");
        if random.happens(0.02) {
            pair.world.change(WIRE, |faults| *faults = random_faults(&mut random));
        }
    }
    collect(&mut pair, &mut history);
    pair.b.close();
    collect(&mut pair, &mut history);
    history.memory = content(&target);
    history
}

fn collect(pair: &mut Pair, history: &mut History) {
    let now = pair.world.now();
    for done in poll(&mut pair.a) {
        if done.outcome.is_ok() && done.work.kind() == OpKind::Write {
            history.written.push(done.op_id);
        }
        if done.outcome.is_ok() && done.work.consumes_receive() {
            history.confirmed.push(done.op_id);
        }
        history.a.push((now, (done.op_id, done.outcome)));
    }
    history.b.extend(outcomes(&mut pair.b).into_iter().map(|outcome| (now, outcome)));
}

/// Memory with a slot for each operation: what `a` sends and reads, what `b` receives.
struct Buffers {
    sent: Region,
    got: Region,
    received: Region,
}

impl Buffers {
    fn new() -> Self {
        let bytes: Vec<u8> = (0..OPS as u8).flat_map(|op_id| [op_id + 1; SLOT]).collect();
        let buffer = || region(bytes.len(), Rights::NONE);
        Buffers { sent: region_with(&bytes), got: buffer(), received: buffer() }
    }

    fn op(&self, op_id: u64, random: &mut Random, window: &Window) -> Op {
        let at = window.at(op_id * SLOT as u64);
        let (from, into) = (part(&self.sent, op_id), part(&self.got, op_id));
        match random.next() % 5 {
            0 => Op::write(op_id, from, at),
            1 => Op::write_imm(op_id, from, at, op_id as u32),
            2 => Op::read(op_id, into, at),
            3 => {
                let (from, imm) = (Slices::One(from), Some(op_id as u32));
                Op { op_id, work: Work::Send { from, imm } }
            }
            _ => {
                let old = self.got.slice(into.offset()..into.offset() + 8);
                Op { op_id, work: Work::FetchAdd { old, at, add: 1 } }
            }
        }
    }
}

/// The slot of an operation.
fn part(region: &Region, op_id: u64) -> crate::Slice {
    let begin = op_id as usize * SLOT;
    region.slice(begin..begin + SLOT)
}

fn random_faults(random: &mut Random) -> Faults {
    let loss = [0.0, 0.05, 0.3, 0.6][random.next() as usize % 4];
    Faults {
        delay: random.up_to(ms(5)),
        jitter: random.up_to(ms(5)),
        reorder: if random.happens(0.5) { random.up_to(ms(60)) } else { Duration::ZERO },
        loss,
        bandwidth: random.happens(0.3).then_some(100_000),
        hold: if random.happens(0.1) { Duration::from_secs(2) } else { Duration::ZERO },
        dead: random.happens(0.05),
    }
}

fn op_ids(seen: &[(Duration, Outcome)]) -> Vec<u64> {
    let mut op_ids: Vec<u64> = seen.iter().map(|(_, (op_id, _))| *op_id).collect();
    op_ids.sort_unstable();
    op_ids
}

#[test]
fn the_same_seed_gives_the_same_history_and_another_seed_another() {
    for seed in 0..20 {
        assert_eq!(history(seed), history(seed), "seed {seed}");
    }
    assert_ne!(history(1), history(2));
}

#[test]
fn every_operation_is_returned_once_and_successful_writes_are_in_memory() {
    let (mut failed_lanes, mut written) = (0, 0);
    for seed in 0..200 {
        let history = history(seed);
        let all: Vec<u64> = (0..OPS).collect();
        assert_eq!(op_ids(&history.a), all, "seed {seed}");
        assert_eq!(op_ids(&history.b), all, "seed {seed}");
        for op_id in &history.written {
            let place = &history.memory[*op_id as usize * SLOT..][..SLOT];
            assert_eq!(place, [*op_id as u8 + 1; SLOT], "seed {seed}");
        }
        immediate_data_arrives_once(seed, &history);
        failed_lanes += usize::from(history.a.iter().any(|(_, (_, outcome))| outcome.is_err()));
        written += history.written.len();
    }
    // Otherwise the loop tests too little.
    assert!((20..180).contains(&failed_lanes), "{failed_lanes} of 200 lanes failed");
    assert!(written > 1000, "{written} writes succeeded");
}

/// Immediate data is received at most once, and exactly once if its sender got a success.
fn immediate_data_arrives_once(seed: u64, history: &History) {
    let mut numbers: Vec<u64> = Vec::new();
    for (_, (_, outcome)) in &history.b {
        match outcome {
            Ok(Done::Received { imm: Some(imm), .. }) => numbers.push(u64::from(*imm)),
            Err(Failure::Flushed) => {}
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "seed {seed}: immediate data was received twice");
    let missing = history.confirmed.iter().find(|number| !numbers.contains(number));
    assert_eq!(missing, None, "seed {seed}: immediate data was not received");
}
