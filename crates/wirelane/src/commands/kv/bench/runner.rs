//! One client that asks as fast as answers come: the result of the product, so nothing here allocates.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kv_client::{Client, Error, Kind, Pending, PutOptions, Stored, Token, Value};

use super::load::key;
use super::pattern::Proof;
use super::plan::Plan;
use super::tally::Tally;
use super::workload::Choice;
use crate::output::exit::client_error;

pub(super) struct Runner<'p> {
    client: Client,
    plan: &'p Plan,
    share: u64,
    choice: Choice,
    proof: Proof,
    /// Which write is next; no two clients have the same.
    stamp: u64,
    /// What is in flight.
    asked: Vec<Asked>,
    over: Vec<Token>,
    value: Vec<u8>,
    tally: Tally,
    progress: &'p AtomicU64,
    /// Nothing more comes of it.
    is_lost: bool,
}

struct Asked {
    pending: PendingCall,
    key: u32,
    name: [u8; 16],
    begun: Instant,
}

enum PendingCall {
    Get(Pending<Value>),
    Put(Pending<Stored>),
}

impl PendingCall {
    #[inline]
    fn token(&self) -> Token {
        match self {
            PendingCall::Get(pending) => pending.token(),
            PendingCall::Put(pending) => pending.token(),
        }
    }
}

impl<'p> Runner<'p> {
    pub(super) fn new(
        client: Client,
        plan: &'p Plan,
        number: usize,
        progress: &'p AtomicU64,
    ) -> Self {
        Runner {
            client,
            plan,
            share: plan.share(number),
            choice: Choice::new(plan.dist, plan.keys, plan.read_ratio, number as u64),
            proof: Proof::new(plan.value_size),
            stamp: (number as u64 + 1) << 40,
            asked: Vec::with_capacity(plan.depth),
            over: Vec::with_capacity(plan.depth),
            value: Vec::with_capacity(plan.value_size),
            tally: Tally::new(),
            progress,
            is_lost: false,
        }
    }

    /// Asks for a while; what went wrong counts, the rest does not.
    pub(super) fn warm_up(&mut self) {
        let Some(time) = self.plan.warmup else { return };
        self.rounds(u64::MAX, Some(Instant::now() + time));
        self.tally.begin_again();
    }

    /// Asks for what is its share. Says what it saw, and when the last answer came.
    pub(super) fn run(mut self) -> (Tally, Instant) {
        let deadline = self.plan.duration.map(|time| Instant::now() + time);
        let ended = self.rounds(self.share, deadline);
        (self.tally, ended)
    }

    fn rounds(&mut self, mut left: u64, deadline: Option<Instant>) -> Instant {
        let mut now = Instant::now();
        while !self.is_lost {
            let over = deadline.is_some_and(|deadline| now >= deadline);
            if over {
                left = 0;
            }
            let room = (self.plan.depth - self.asked.len()).min(left as usize);
            left -= room as u64;
            self.refill(room);
            if self.asked.is_empty() {
                break;
            }
            if let Err(error) = self.client.ready(&mut self.over) {
                self.lost(&error);
                break;
            }
            now = Instant::now();
            self.take(now);
        }
        now
    }

    /// Asks for as many as came back. They travel in one batch, or in two: while the store answers one, the
    /// other is made or taken apart here.
    fn refill(&mut self, mut room: usize) {
        let begun = Instant::now();
        while room > 0 && !self.is_lost {
            let batch = room.min(self.plan.depth.div_ceil(2));
            room -= batch;
            (0..batch).for_each(|_| self.ask(begun));
            if let Err(error) = self.client.flush() {
                self.lost(&error);
            }
        }
    }

    #[inline]
    fn ask(&mut self, begun: Instant) {
        let (key_number, reads) = (self.choice.key(), self.choice.reads());
        let name = key(key_number);
        let pending = match reads {
            true => self.client.begin_get(&name, self.plan.value_size).map(PendingCall::Get),
            false => {
                self.stamp += 1;
                self.proof.fill(key_number, self.stamp, &mut self.value);
                self.client
                    .begin_put(&name, &self.value, &PutOptions::default())
                    .map(PendingCall::Put)
            }
        };
        match pending {
            Ok(pending) => self.asked.push(Asked { pending, key: key_number, name, begun }),
            Err(error) => self.lost(&error),
        }
    }

    fn take(&mut self, now: Instant) {
        let mut over = std::mem::take(&mut self.over);
        self.progress.fetch_add(over.len() as u64, Ordering::Relaxed);
        for token in over.drain(..) {
            let Some(at) = self.asked.iter().position(|asked| asked.pending.token() == token)
            else {
                continue;
            };
            let Asked { pending, key, name, begun } = self.asked.swap_remove(at);
            self.tally.took(now - begun);
            match pending {
                PendingCall::Get(pending) => self.check(key, &name, pending),
                PendingCall::Put(pending) => {
                    if let Err(error) = self.client.finish_put(&name, pending) {
                        self.failed(&error);
                    }
                }
            }
        }
        self.over = over;
    }

    #[inline]
    fn check(&mut self, key: u32, name: &[u8], pending: Pending<Value>) {
        match self.client.finish_get(name, pending) {
            Ok(Some(value)) => {
                match self.proof.holds_in(key, &value, &mut self.value) {
                    true => self.tally.verified += 1,
                    false => self.tally.wrong(damaged(key, &value)),
                }
            }
            Ok(None) => self.tally.wrong(format!(
                "{} is missing: the store has no room for all keys — fewer --keys, or more --memory",
                key_name(key)
            )),
            Err(error) => self.failed(&error),
        }
    }

    #[cold]
    fn failed(&mut self, error: &Error) {
        self.tally.wrong(client_error(error));
        self.is_lost |=
            matches!(error.kind(), Kind::Unavailable | Kind::Deadline | Kind::ProtocolError);
    }

    #[cold]
    fn lost(&mut self, error: &Error) {
        self.tally.wrong(client_error(error));
        self.is_lost = true;
    }
}

#[cold]
fn damaged(key: u32, value: &[u8]) -> String {
    format!("{} has a value that was never stored there ({} bytes)", key_name(key), value.len())
}

fn key_name(number: u32) -> String {
    String::from_utf8_lossy(&key(number)).into_owned()
}
