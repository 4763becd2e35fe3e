//! One client, which sends requests as fast as replies arrive, or at the times of a schedule. This is the measured path, so nothing
//! here allocates.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kv_client::{CallId, Client, Error, ErrorKind, Pending, PutOptions, Stored, Value};

use super::load::key;
use super::pattern::ValuePattern;
use super::plan::{KvBenchPlan, Verified};
use super::schedule::Schedule;
use super::tally::Tally;
use super::workload::Workload;
use crate::output::exit::client_error;

pub(super) struct Runner<'p> {
    client: Client,
    plan: &'p KvBenchPlan,
    /// Its number among all clients.
    number: usize,
    share: u64,
    workload: Workload,
    pattern: ValuePattern,
    /// The number of the last write; unique among clients.
    stamp: u64,
    in_flight: Vec<Request>,
    completed: Vec<CallId>,
    value: Vec<u8>,
    tally: Tally,
    progress: &'p AtomicU64,
    /// The connection is lost.
    is_lost: bool,
}

struct Request {
    pending: PendingCall,
    key: u32,
    name: [u8; 16],
    started: Instant,
}

enum PendingCall {
    Get(Pending<Value>),
    Put(Pending<Stored>),
}

impl PendingCall {
    #[inline]
    fn call_id(&self) -> CallId {
        match self {
            PendingCall::Get(pending) => pending.call_id(),
            PendingCall::Put(pending) => pending.call_id(),
        }
    }
}

impl<'p> Runner<'p> {
    pub(super) fn new(
        client: Client,
        plan: &'p KvBenchPlan,
        number: usize,
        progress: &'p AtomicU64,
    ) -> Self {
        Runner {
            client,
            plan,
            number,
            share: plan.share(number),
            workload: Workload::new(plan.dist, plan.keys, plan.read_ratio, number as u64),
            pattern: ValuePattern::new(plan.value_size),
            stamp: (number as u64 + 1) << 40,
            in_flight: Vec::with_capacity(plan.depth),
            completed: Vec::with_capacity(plan.depth),
            value: Vec::with_capacity(plan.value_size),
            tally: Tally::new(),
            progress,
            is_lost: false,
        }
    }

    /// Runs the warm-up; only its errors count.
    pub(super) fn warm_up(&mut self) {
        let Some(time) = self.plan.warmup else { return };
        match self.plan.rate {
            Some(rate) => self.follow(rate, self.plan.warmup_share(time, rate, self.number)),
            None => self.rounds(u64::MAX, Some(Instant::now() + time)),
        };
        self.tally.reset();
    }

    /// Sends its share of requests. Returns the results, and when the last reply arrived.
    pub(super) fn run(mut self) -> (Tally, Instant) {
        let deadline = self.plan.duration.map(|time| Instant::now() + time);
        let ended = match self.plan.rate {
            Some(rate) => self.follow(rate, self.share),
            None => self.rounds(self.share, deadline),
        };
        (self.tally, ended)
    }

    /// Sends `count` requests at the times of a schedule that starts now. One that finds no free slot is sent later, and its latency
    /// counts from when it was due.
    fn follow(&mut self, rate: f64, count: u64) -> Instant {
        let mut now = Instant::now();
        let schedule = Schedule::new(now, rate, self.plan.clients, self.number);
        let (mut sent, mut ended) = (0, now);
        while !self.is_lost && (sent < count || !self.in_flight.is_empty()) {
            let before = sent;
            while sent < count && self.has_slot() && schedule.due(sent) <= now && !self.is_lost {
                self.send(schedule.due(sent));
                sent += 1;
            }
            if sent > before
                && let Err(error) = self.client.flush()
            {
                self.lost(&error);
                break;
            }
            let next = (sent < count && self.has_slot()).then(|| schedule.due(sent));
            if let Err(error) = self.wait(next) {
                self.lost(&error);
                break;
            }
            now = Instant::now();
            if !self.completed.is_empty() {
                ended = now;
                self.finish_completed(now);
            }
        }
        ended
    }

    fn has_slot(&self) -> bool {
        self.in_flight.len() < self.plan.depth
    }

    /// Waits for replies, and no longer than until the next request is due.
    fn wait(&mut self, next: Option<Instant>) -> Result<(), Error> {
        let Some(next) = next else { return self.client.ready(&mut self.completed) };
        // Timers are late, by less than this.
        let left = next.saturating_duration_since(Instant::now()).saturating_sub(SPIN_TIME);
        if self.in_flight.is_empty() && left.is_zero() {
            std::hint::spin_loop();
            return Ok(());
        }
        // Also with nothing in flight: the store takes a client that does not poll for lost.
        self.client.ready_within(left, &mut self.completed)
    }

    fn rounds(&mut self, mut left: u64, deadline: Option<Instant>) -> Instant {
        let mut now = Instant::now();
        while !self.is_lost {
            if deadline.is_some_and(|deadline| now >= deadline) {
                left = 0;
            }
            let free = (self.plan.depth - self.in_flight.len()).min(left as usize);
            left -= free as u64;
            self.refill(free);
            if self.in_flight.is_empty() {
                break;
            }
            if let Err(error) = self.client.ready(&mut self.completed) {
                self.lost(&error);
                break;
            }
            now = Instant::now();
            self.finish_completed(now);
        }
        now
    }

    /// Sends as many requests as were completed, in one or two batches: while the store answers one, the client
    /// encodes or decodes the other.
    fn refill(&mut self, mut free: usize) {
        let started = Instant::now();
        while free > 0 && !self.is_lost {
            let batch = free.min(self.plan.depth.div_ceil(2));
            free -= batch;
            (0..batch).for_each(|_| self.send(started));
            if let Err(error) = self.client.flush() {
                self.lost(&error);
            }
        }
    }

    #[inline]
    fn send(&mut self, started: Instant) {
        let (key_number, is_read) = (self.workload.key(), self.workload.is_read());
        let name = key(key_number);
        let pending = match is_read {
            true => self.client.begin_get(&name, self.plan.value_size).map(PendingCall::Get),
            false => {
                self.stamp += 1;
                self.pattern.fill(key_number, self.stamp, &mut self.value);
                self.client
                    .begin_put(&name, &self.value, &PutOptions::default())
                    .map(PendingCall::Put)
            }
        };
        match pending {
            Ok(pending) => self.in_flight.push(Request { pending, key: key_number, name, started }),
            Err(error) => self.lost(&error),
        }
    }

    fn finish_completed(&mut self, now: Instant) {
        let mut completed = std::mem::take(&mut self.completed);
        self.progress.fetch_add(completed.len() as u64, Ordering::Relaxed);
        for call_id in completed.drain(..) {
            let Some(at) =
                self.in_flight.iter().position(|request| request.pending.call_id() == call_id)
            else {
                continue;
            };
            let Request { pending, key, name, started } = self.in_flight.swap_remove(at);
            self.tally.record(now - started);
            match pending {
                PendingCall::Get(pending) => self.check(key, &name, pending),
                PendingCall::Put(pending) => {
                    if let Err(error) = self.client.finish_put(&name, pending) {
                        self.failed(&error);
                    }
                }
            }
        }
        self.completed = completed;
    }

    #[inline]
    fn check(&mut self, key: u32, name: &[u8], pending: Pending<Value>) {
        match self.client.finish_get(name, pending) {
            Ok(Some(value)) => {
                let matches = match self.plan.verify {
                    Verified::All => self.pattern.matches_in_pieces(key, &value, &mut self.value),
                    Verified::Ends => self.pattern.matches_at_ends(key, &value),
                };
                match matches {
                    true => self.tally.verified += 1,
                    false => self.tally.error(damaged(key, &value)),
                }
            }
            Ok(None) => self.tally.error(format!(
                "{} is missing: the store was too small for all keys — use fewer --keys, or more --memory",
                key_name(key)
            )),
            Err(error) => self.failed(&error),
        }
    }

    #[cold]
    fn failed(&mut self, error: &Error) {
        self.tally.error(client_error(error));
        self.is_lost |= matches!(
            error.kind(),
            ErrorKind::Unavailable | ErrorKind::TimedOut | ErrorKind::ProtocolError
        );
    }

    #[cold]
    fn lost(&mut self, error: &Error) {
        self.tally.error(client_error(error));
        self.is_lost = true;
    }
}

#[cold]
fn damaged(key: u32, value: &[u8]) -> String {
    format!("{} has a value that was never written ({} bytes)", key_name(key), value.len())
}

fn key_name(number: u32) -> String {
    String::from_utf8_lossy(&key(number)).into_owned()
}

/// How long before a request is due its client stops sleeping.
const SPIN_TIME: Duration = Duration::from_micros(200);
