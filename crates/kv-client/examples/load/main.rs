//! A client that works until it is ended: values of all sizes, written, read, deleted and left to expire, and every
//! value that is read must prove itself. `cargo xtask soak` runs many of them.
//!
//! `load HOST:PORT shm|tcp|grpc SEED` prints a line each second: what it did, and how long that took. It takes more words:
//! `bytes=N` for values of one length, `reads=PERCENT` for how many of the requests read once all keys are written,
//! `space=N` for keys that only clients of that number have, `token=NAME:TOKEN` for who it is, and `idlers=N` for so many
//! clients that only stay connected, and ask for nothing.
#![allow(clippy::print_stdout, reason = "its report is its output")]

mod connection;
mod options;

use std::io::Write;
use std::time::{Duration, Instant};

use connection::{Fault, Reach};
use options::Options;

fn main() -> Result<(), String> {
    let options = Options::parse(std::env::args().skip(1))?;
    let idlers = (0..options.idlers).map(|_| Reach::open(&options));
    let _idlers = idlers.collect::<Result<Vec<_>, _>>()?;
    let mut load = Load {
        way: Reach::open(&options)?,
        chance: Chance(options.seed.wrapping_mul(ODD) | 1),
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
        // Whoever listened is gone: so are we.
        load.tally.tell().map_err(|error| format!("tell what was done: {error}"))?;
    }
}

struct Load {
    options: Options,
    way: Reach,
    chance: Chance,
    stamp: u64,
    value: Vec<u8>,
    tally: Tally,
}

impl Load {
    /// One request.
    fn step(&mut self) {
        let number = self.options.space * KEYS + self.chance.below(KEYS);
        let what = self.chance.below(100);
        let begun = Instant::now();
        match (what, self.options.reads) {
            (_, Some(reads)) if what >= reads => self.put(number, None),
            (0..60, None) | (_, Some(_)) => {
                let got = self.get(number);
                self.tally.took(begun.elapsed(), got);
            }
            (60..65, None) => {
                let deleted = self.way.delete(&number.to_le_bytes());
                self.tally.took(begun.elapsed(), deleted);
            }
            (65..75, None) => {
                let ttl = Duration::from_millis(1 + self.chance.below(5000));
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
                let length = 64 << self.chance.below(15);
                length - self.chance.below(length / 2)
            }
        };
        fill(number, self.chance.0 ^ self.stamp, length as usize, &mut self.value);
        let begun = Instant::now();
        let done = self.way.put(&number.to_le_bytes(), &self.value, ttl);
        self.tally.took(begun.elapsed(), done);
    }

    fn get(&mut self, number: u64) -> Result<(), Fault> {
        if let Some(value) = self.way.get(&number.to_le_bytes())? {
            match proves_itself(number, &value, &mut self.value) {
                true => self.tally.verified += 1,
                false => self.tally.wrong("a value that was never stored there"),
            }
        }
        Ok(())
    }
}

/// A value: its key, its stamp, and bytes that follow from both.
fn fill(number: u64, stamp: u64, length: usize, value: &mut Vec<u8>) {
    value.clear();
    value.extend(number.to_le_bytes());
    value.extend(stamp.to_le_bytes());
    let mut next = number ^ stamp.rotate_left(32) ^ length as u64;
    while value.len() < length {
        next = next.wrapping_mul(ODD).wrapping_add(1);
        value.extend(next.to_le_bytes());
    }
    value.truncate(length);
}

fn proves_itself(number: u64, bytes: &[u8], expected: &mut Vec<u8>) -> bool {
    let Some((_, rest)) = bytes.split_first_chunk::<8>() else { return false };
    let Some((stamp, _)) = rest.split_first_chunk::<8>() else { return false };
    fill(number, u64::from_le_bytes(*stamp), bytes.len(), expected);
    *expected == bytes
}

/// What was done since the last line.
#[derive(Default)]
struct Tally {
    /// By time: eight buckets for each power of two of nanoseconds.
    times: std::collections::BTreeMap<u32, u64>,
    verified: u64,
    unknown: u64,
    errors: u64,
    first_error: String,
}

impl Tally {
    fn took(&mut self, time: Duration, done: Result<(), Fault>) {
        let time = (time.as_nanos() as u64).max(8);
        let power = time.ilog2();
        *self.times.entry(power * 8 + (time >> (power - 3) & 7) as u32).or_default() += 1;
        if let Err(fault) = done {
            self.failed(&fault);
        }
    }

    /// A write of which nobody knows is told as such.
    fn failed(&mut self, fault: &Fault) {
        match fault {
            Fault::Unknown => self.unknown += 1,
            Fault::Failed(why) => self.wrong(why),
        }
    }

    fn wrong(&mut self, why: &str) {
        self.errors += 1;
        if self.first_error.is_empty() {
            self.first_error = why.replace('\n', " ");
        }
    }

    fn tell(&mut self) -> std::io::Result<()> {
        let Tally { times, verified, unknown, errors, first_error } = std::mem::take(self);
        let times: Vec<String> = times.iter().map(|(at, count)| format!("{at}:{count}")).collect();
        let mut out = std::io::stdout().lock();
        writeln!(out, "{verified} {unknown} {errors} {} {first_error}", times.join(","))?;
        out.flush()
    }
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

/// How many keys there are; all clients have the same.
const KEYS: u64 = 2000;
const ODD: u64 = 6_364_136_223_846_793_005;
