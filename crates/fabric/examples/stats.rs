//! Measures the cost of counting: `cargo run --release -p wirelane-fabric --example stats`.
//!
//! Every operation of every lane is counted. This measures only the counting, and a small write completion
//! shared memory, the shortest operation, which includes it.
#![allow(clippy::print_stdout, reason = "prints its result")]

use std::collections::VecDeque;
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use fabric::{
    Completion, Done, Fabric, Memory, OPS_PER_LATENCY_SAMPLE, Op, Pages, Rights, Side, Stats, shm,
};

const ROUNDS: u32 = 5_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let fabric = shm::Shm::default();
    let (dial, accept) = (fabric.prepare_lane(Side::Dial)?, fabric.prepare_lane(Side::Accept)?);
    let (to_dial, to_accept) = (accept.offer(), dial.offer());
    let limit = Duration::from_secs(10);
    let accepted = std::thread::spawn(move || accept.connect(&to_accept, limit));
    let mut lane = dial.connect(&to_dial, limit)?;
    let mut peer = accepted.join().map_err(|_| "the other end panicked")??;

    let region = fabric.register(&Memory::allocate(4096, Pages::Plain)?, Rights::ALL)?;
    let window = lane.import(&peer.grant(&region)?)?;
    let mut ops = VecDeque::from([Op::write(1, region.slice(..8), window.at(64))]);
    let mut done: Vec<Completion> = Vec::new();

    let stats = Stats::default();
    println!("five runs each, nanoseconds for one operation");
    println!("{:>10} {:>10} {:>10}", "counting", "8 B write", "share");
    for _ in 0..5 {
        let write = each(|_| {
            lane.post(&mut ops);
            lane.poll(&mut done);
            ops.extend(done.drain(..).map(|completion| Op { op_id: 1, work: completion.work }));
        });
        let work = ops.pop_front().ok_or("the write is lost")?.work;
        let completion = Completion { op_id: 1, outcome: Ok(Done::Placed), work };
        let counting = each(|round| {
            let started = round.is_multiple_of(OPS_PER_LATENCY_SAMPLE as u32).then(Instant::now);
            stats.count(black_box(&completion));
            if let Some(started) = started {
                stats.add_latency(started.elapsed());
            }
        });
        ops.push_back(Op { op_id: 1, work: completion.work });
        println!("{counting:10.2} {write:10.2} {:9.1}%", counting / write * 100.0);
    }
    Ok(())
}

fn each(mut round: impl FnMut(u32)) -> f64 {
    let started = Instant::now();
    for n in 0..ROUNDS {
        round(n);
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
}
