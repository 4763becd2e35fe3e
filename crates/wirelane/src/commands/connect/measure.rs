//! Measures a link against the measuring service of the peer, see [`ClientHello::Measure`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, Link};
use fabric::{
    Completion, Done, Lane, Memory, Op, Pages, Region, RemoteRegion, Rights, Window, wait,
};
use kv_proto::wire::ClientHello;
use serde::Serialize;

use crate::output;
use crate::output::Failure;

/// What to measure.
pub(super) struct MeasurePlan {
    /// Bytes per operation of the bandwidth measurement.
    pub(super) size: usize,
    /// Total time.
    pub(super) time: Duration,
    /// The measurement is aborted if no operation completes for this long.
    pub(super) timeout: Duration,
}

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Measurement {
    /// From posting one write to its completion.
    pub(super) write_latency: Latency,
    /// From sending one message to receiving it back.
    pub(super) message_round_trip: Latency,
    pub(super) write_bandwidth: Bandwidth,
    pub(super) read_bandwidth: Bandwidth,
}

/// One operation after the other.
#[derive(Debug, Serialize)]
pub(super) struct Latency {
    pub(super) bytes: usize,
    pub(super) operations: usize,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
}

/// Several operations in flight.
#[derive(Debug, Serialize)]
pub(super) struct Bandwidth {
    pub(super) bytes: usize,
    pub(super) in_flight: usize,
    pub(super) operations: u64,
    pub(super) seconds: f64,
    pub(super) bytes_per_second: f64,
}

pub(super) fn run(
    link: &mut Link,
    endpoint: &Endpoint,
    plan: &MeasurePlan,
) -> Result<Measurement, Failure> {
    if plan.time > PROGRESS_AFTER {
        output::progress(&format!("measuring for {} s …", plan.time.as_secs_f64()));
    }
    let mut bench = Bench::new(link, endpoint, plan)?;
    Ok(Measurement {
        write_latency: bench.latency(Bench::write_once)?,
        message_round_trip: bench.latency(Bench::round_trip)?,
        write_bandwidth: bench.bandwidth(|bench, slot| {
            Op::write(0, bench.buffer(slot), bench.window.at(bench.offset(slot)))
        })?,
        read_bandwidth: bench.bandwidth(|bench, slot| {
            Op::read(0, bench.buffer(slot), bench.window.at(bench.offset(slot)))
        })?,
    })
}

struct Bench<'l> {
    link: &'l mut Link,
    /// The service's memory.
    window: Window,
    /// A buffer for each operation in flight, and one for messages.
    region: Region,
    size: usize,
    depth: usize,
    /// For each result.
    time: Duration,
    timeout: Duration,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
}

impl<'l> Bench<'l> {
    fn new(link: &'l mut Link, endpoint: &Endpoint, plan: &MeasurePlan) -> Result<Self, Failure> {
        let depth = (IN_FLIGHT_BYTES / plan.size).clamp(MIN_DEPTH, MAX_DEPTH);
        let memory = Memory::allocate(plan.size * depth + MESSAGE_BYTES, Pages::Plain)?;
        // Page faults are not to be measured.
        memory.prefault(1, |_| ())?;
        let region = endpoint.register(&memory, Rights::NONE)?;
        let MeasurePlan { size, time, timeout } = *plan;
        let (mut ops, mut done) = (VecDeque::new(), Vec::new());
        let begin = size * depth;
        let opening = ClientHello::Measure.to_bytes();
        region.memory().write(begin, &opening);
        let answer = region.slice(begin + MESSAGE_BYTES / 2..);
        ops.push_back(Op::receive(RECEIVE, answer.clone()));
        ops.push_back(Op::send(0, region.slice(begin..begin + opening.len())));
        link.post(&mut ops);
        let started = Instant::now();
        let outcome = loop {
            wait(link, &mut done, timeout);
            let received = done.drain(..).find(|completion| completion.op_id == RECEIVE);
            match received {
                Some(completion) => break completion.outcome,
                None if started.elapsed() >= timeout => return Err(stalled(link)),
                None => {}
            }
        };
        let length = match outcome {
            Ok(Done::Received { length, .. }) => length,
            Err(failure) => return Err(broken(failure)),
            Ok(_) => return Err(stalled(link)),
        };
        let answer = answer.to_vec();
        let scratch =
            RemoteRegion::from_bytes(&answer[..length.min(answer.len())]).map_err(|error| {
                let fix = "run the same version at both ends, or connect with --no-measure";
                Failure::failed(format!(
                    "the peer's measuring service is of another version: {error}; {fix}"
                ))
            })?;
        let window = link.import(&scratch)?;
        if window.len() < size as u64 {
            let text = format!(
                "the peer offers only {} bytes for measurements: use a smaller --size",
                window.len()
            );
            return Err(Failure::usage(text));
        }
        let time = time / MEASUREMENTS;
        Ok(Bench { link, window, region, size, depth, time, timeout, ops, done })
    }

    fn buffer(&self, slot: usize) -> fabric::Slice {
        self.region.slice(slot * self.size..(slot + 1) * self.size)
    }

    /// The remote offset of a slot: slots are spread over all of the peer's memory.
    fn offset(&self, slot: usize) -> u64 {
        let slots = (self.window.len() / self.size as u64).max(1);
        slot as u64 % slots * self.size as u64
    }

    fn small_buffer(&self) -> fabric::Slice {
        let begin = self.size * self.depth;
        self.region.slice(begin..begin + SMALL_BYTES)
    }

    fn write_once(&mut self) -> Result<(), Failure> {
        self.ops.push_back(Op::write(0, self.small_buffer(), self.window.at(0)));
        self.complete(1)
    }

    fn round_trip(&mut self) -> Result<(), Failure> {
        self.ops.push_back(Op::receive(RECEIVE, self.small_buffer()));
        self.ops.push_back(Op::send(0, self.small_buffer()));
        self.complete(2)
    }

    fn latency(&mut self, once: fn(&mut Self) -> Result<(), Failure>) -> Result<Latency, Failure> {
        // The first one is slower, and not counted.
        once(self)?;
        let mut samples = Vec::new();
        let started = Instant::now();
        let mut last = started;
        while samples.is_empty() || (last - started < self.time && samples.len() < MAX_SAMPLES) {
            once(self)?;
            let now = Instant::now();
            samples.push((now - last).as_nanos() as u64);
            last = now;
        }
        samples.sort_unstable();
        let percentile = |part: usize| samples[(samples.len() - 1) * part / 100];
        let (p50_ns, p99_ns) = (percentile(50), percentile(99));
        Ok(Latency { bytes: SMALL_BYTES, operations: samples.len(), p50_ns, p99_ns })
    }

    fn bandwidth(&mut self, op: fn(&Self, usize) -> Op) -> Result<Bandwidth, Failure> {
        for slot in 0..self.depth {
            self.ops.push_back(op(self, slot));
        }
        let started = Instant::now();
        let (mut in_flight, mut operations) = (self.depth, 0);
        while in_flight > 0 {
            self.advance()?;
            let more = started.elapsed() < self.time;
            for Completion { op_id, outcome, work } in std::mem::take(&mut self.done) {
                outcome.map_err(broken)?;
                operations += 1;
                match more {
                    true => self.ops.push_back(Op { op_id, work }),
                    false => in_flight -= 1,
                }
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        let bytes_per_second = operations as f64 * self.size as f64 / seconds;
        let (bytes, in_flight) = (self.size, self.depth);
        Ok(Bandwidth { bytes, in_flight, operations, seconds, bytes_per_second })
    }

    /// Waits until `count` operations have completed.
    fn complete(&mut self, mut count: usize) -> Result<(), Failure> {
        while count > 0 {
            self.advance()?;
            for completion in self.done.drain(..) {
                completion.outcome.map_err(broken)?;
                count -= 1;
            }
        }
        Ok(())
    }

    /// Posts the queued operations, and waits for completions.
    fn advance(&mut self) -> Result<(), Failure> {
        self.link.post(&mut self.ops);
        match wait(self.link, &mut self.done, self.timeout) {
            0 => Err(stalled(self.link)),
            _ => Ok(()),
        }
    }
}

fn broken(failure: fabric::Failure) -> Failure {
    Failure::failed(format!("measure the link: {failure}"))
}

fn stalled(link: &Link) -> Failure {
    let why = link.report().status().why;
    Failure::failed(format!("measure the link: the peer does not respond — see its log; {why}"))
}

/// Token of receives; other operations have 0.
const RECEIVE: u64 = 1;
/// Memory for messages, sent and received.
const MESSAGE_BYTES: usize = 8 << 10;
/// Size of latency measurements.
const SMALL_BYTES: usize = 64;
const MEASUREMENTS: u32 = 4;
/// Bytes in flight of the bandwidth measurement, within these numbers of operations.
const IN_FLIGHT_BYTES: usize = 16 << 20;
const MIN_DEPTH: usize = 4;
const MAX_DEPTH: usize = 32;
const MAX_SAMPLES: usize = 1 << 20;
const PROGRESS_AFTER: Duration = Duration::from_secs(2);
