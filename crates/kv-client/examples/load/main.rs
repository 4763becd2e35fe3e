//! A load generator that runs until it is stopped: it writes, reads, deletes and expires values of all sizes, and verifies every
//! value that it reads. `cargo xtask soak` runs many of them.
//!
//! `load HOST:PORT shm|tcp|grpc SEED` prints a line each second: counts and latencies. Further arguments:
//! `bytes=N` sets the length of all values, `reads=PERCENT` the share of reads once all keys are written,
//! `space=N` selects a set of keys that only clients with the same number use, `token=NAME:TOKEN` is the credential, and `idlers=N` opens
//! that many connections without requests.
#![allow(clippy::print_stdout, reason = "the report is its output")]

mod connection;
mod options;

use std::io::Write;
use std::time::{Duration, Instant};

use connection::{Fault, StoreConnection};
use options::Options;

fn main() -> Result<(), String> {
    let options = Options::parse(std::env::args().skip(1))?;
    let idlers = (0..options.idlers).map(|_| StoreConnection::open(&options));
    let _idlers = idlers.collect::<Result<Vec<_>, _>>()?;
    let mut load = Load {
        connection: StoreConnection::open(&options)?,
        random: Random(options.seed.wrapping_mul(MULTIPLIER) | 1),
        options,
        stamp: 0,
        value: Vec::new(),
        tally: Tally::default(),
    };
    if load.options.reads.is_some() {
        (0..KEYS).for_each(|number| load.put(load.options.space * KEYS + number, None));
    }
    loop {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(1) {
            match load.options.idlers {
                0 => load.step(),
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        }
        // Ends when stdout is closed.
        load.tally.print().map_err(|error| format!("print the report: {error}"))?;
    }
}

struct Load {
    options: Options,
    connection: StoreConnection,
    random: Random,
    stamp: u64,
    value: Vec<u8>,
    tally: Tally,
}

impl Load {
    /// One request.
    fn step(&mut self) {
        let number = self.options.space * KEYS + self.random.below(KEYS);
        let draw = self.random.below(100);
        let begun = Instant::now();
        match (draw, self.options.reads) {
            (_, Some(reads)) if draw >= reads => self.put(number, None),
            (0..60, None) | (_, Some(_)) => {
                let got = self.get(number);
                self.tally.add(begun.elapsed(), got);
            }
            (60..65, None) => {
                let deleted = self.connection.delete(&number.to_le_bytes());
                self.tally.add(begun.elapsed(), deleted);
            }
            (65..75, None) => {
                let ttl = Duration::from_millis(1 + self.random.below(5000));
                self.put(number, Some(ttl));
            }
            _ => self.put(number, None),
        }
    }

    fn put(&mut self, number: u64, ttl: Option<Duration>) {
        self.stamp += 1;
        let length = match self.options.bytes {
            Some(bytes) => bytes,
            None => {
                let length = 64 << self.random.below(15);
                length - self.random.below(length / 2)
            }
        };
        fill(number, self.random.0 ^ self.stamp, length as usize, &mut self.value);
        let begun = Instant::now();
        let done = self.connection.put(&number.to_le_bytes(), &self.value, ttl);
        self.tally.add(begun.elapsed(), done);
    }

    fn get(&mut self, number: u64) -> Result<(), Fault> {
        if let Some(value) = self.connection.get(&number.to_le_bytes())? {
            match matches_its_key(number, &value, &mut self.value) {
                true => self.tally.verified += 1,
                false => self.tally.error("read a value that was never stored under the key"),
            }
        }
        Ok(())
    }
}

/// A value: its key, its stamp, and bytes derived from both.
fn fill(number: u64, stamp: u64, length: usize, value: &mut Vec<u8>) {
    value.clear();
    value.extend(number.to_le_bytes());
    value.extend(stamp.to_le_bytes());
    let mut next = number ^ stamp.rotate_left(32) ^ length as u64;
    while value.len() < length {
        next = next.wrapping_mul(MULTIPLIER).wrapping_add(1);
        value.extend(next.to_le_bytes());
    }
    value.truncate(length);
}

fn matches_its_key(number: u64, bytes: &[u8], expected: &mut Vec<u8>) -> bool {
    let Some((_, rest)) = bytes.split_first_chunk::<8>() else { return false };
    let Some((stamp, _)) = rest.split_first_chunk::<8>() else { return false };
    fill(number, u64::from_le_bytes(*stamp), bytes.len(), expected);
    *expected == bytes
}

/// Counts since the last line.
#[derive(Default)]
struct Tally {
    /// Latencies: eight buckets for each power of two of nanoseconds.
    times: std::collections::BTreeMap<u32, u64>,
    verified: u64,
    unknown: u64,
    errors: u64,
    first_error: String,
}

impl Tally {
    fn add(&mut self, time: Duration, done: Result<(), Fault>) {
        let time = (time.as_nanos() as u64).max(8);
        let power = time.ilog2();
        *self.times.entry(power * 8 + (time >> (power - 3) & 7) as u32).or_default() += 1;
        if let Err(fault) = done {
            self.failed(&fault);
        }
    }

    /// A write with unknown outcome is counted separately.
    fn failed(&mut self, fault: &Fault) {
        match fault {
            Fault::Unknown => self.unknown += 1,
            Fault::Failed(text) => self.error(text),
        }
    }

    fn error(&mut self, text: &str) {
        self.errors += 1;
        if self.first_error.is_empty() {
            self.first_error = text.replace('\n', " ");
        }
    }

    fn print(&mut self) -> std::io::Result<()> {
        let Tally { times, verified, unknown, errors, first_error } = std::mem::take(self);
        let times: Vec<String> = times.iter().map(|(at, count)| format!("{at}:{count}")).collect();
        let mut out = std::io::stdout().lock();
        writeln!(out, "{verified} {unknown} {errors} {} {first_error}", times.join(","))?;
        out.flush()
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

/// The number of keys in a key space.
const KEYS: u64 = 2000;
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
