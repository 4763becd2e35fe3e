//! Batches under way, and what came of them.

use std::sync::Arc;
use std::time::Duration;

use fabric::Slice;
use kv_proto::wire::{Answer, Parts};

use crate::landing::Lease;
use crate::outbox::Call;
use crate::value::{Facts, Value};

/// Batches under way, by their tags.
#[derive(Default)]
pub(crate) struct Flights {
    rows: Vec<Option<Flight>>,
    free: Vec<u32>,
    /// The answers of one batch, copied.
    answers: Vec<u8>,
    /// Emptied, to be used again.
    spare: Vec<Vec<Call>>,
}

/// One batch: its message stays where it is until the answers are here, in case it must be said again.
pub(crate) struct Flight {
    lease: Arc<Lease>,
    message: usize,
    /// How many writes of the answer have come.
    parts: u32,
    pub(crate) calls: Vec<Call>,
}

/// What became of a request.
pub(crate) struct Answered {
    pub(crate) token: u64,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    /// The store's answer, and the bytes that stood behind it.
    Answer(Answer, Option<Value>),
    /// A write whose store is gone.
    Unknown,
    /// A question whose store is gone: it may be asked again.
    Lost,
    /// It was never sent, for want of landing memory.
    Unsent,
}

impl Flight {
    pub(crate) fn new(lease: Lease, message: usize, calls: Vec<Call>) -> Self {
        Flight { lease: Arc::new(lease), message, parts: 0, calls }
    }

    /// What is said.
    pub(crate) fn message(&self) -> Slice {
        let begin = self.lease.offset();
        self.lease.landing().region().slice(begin..begin + self.message)
    }

    /// Where the answers begin in a lease with a message of this length.
    pub(crate) fn answers_after(message: usize) -> usize {
        message.next_multiple_of(64)
    }

    /// Gives out the answers, once all of them are here.
    fn land(
        &self,
        scratch: &mut Vec<u8>,
        give: &mut impl FnMut(u64, Outcome),
    ) -> Result<(), &'static str> {
        let begins = Self::answers_after(self.message);
        let memory = self.lease.landing().memory();
        scratch.resize(self.calls.len() * Answer::LENGTH, 0);
        // Copied before they are looked at: the store could write to them again.
        memory.read(self.lease.offset() + begins, scratch);
        let mut behind = begins + scratch.len();
        for (call, bytes) in self.calls.iter().zip(scratch.chunks_exact(Answer::LENGTH)) {
            let answer = Answer::parse(bytes)?;
            let mut value = None;
            if call.packed {
                let length = usize::try_from(answer.written).map_err(|_| TOO_MUCH)?;
                let end = behind.checked_add(length).filter(|end| *end <= self.lease.len());
                let end = end.ok_or(TOO_MUCH)?;
                value = Some(Value {
                    lease: self.lease.clone(),
                    offset: self.lease.offset() + behind,
                    length,
                    facts: facts(&answer),
                });
                behind = end;
            }
            give(call.token, Outcome::Answer(answer, value));
        }
        Ok(())
    }
}

/// What an answer says of the value.
pub(crate) fn facts(answer: &Answer) -> Facts {
    Facts {
        length: answer.length,
        version: answer.version,
        expires_in: answer.expires_in.map(Duration::from_millis),
    }
}

impl Flights {
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn next_tag(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.rows.len() as u32)
    }

    /// Under the tag that was next.
    pub(crate) fn insert(&mut self, tag: u32, flight: Flight) {
        match self.free.pop() {
            Some(_) => self.rows[tag as usize] = Some(flight),
            None => self.rows.push(Some(flight)),
        }
    }

    /// A write of an answer has come.
    pub(crate) fn part(
        &mut self,
        number: u32,
        give: &mut impl FnMut(u64, Outcome),
    ) -> Result<(), &'static str> {
        let Parts { tag, count } = Parts::from_number(number).ok_or("a number of no batch")?;
        let row = self.rows.get_mut(tag as usize).ok_or("a number of no batch")?;
        let flight = row.as_mut().ok_or("a number of no batch")?;
        flight.parts += 1;
        if flight.parts < count {
            return Ok(());
        }
        let Some(flight) = row.take() else { return Ok(()) };
        self.free.push(tag);
        let landed = flight.land(&mut self.answers, give);
        let Flight { mut calls, .. } = flight;
        calls.clear();
        self.spare.push(calls);
        landed
    }

    /// Room for the calls of another batch.
    pub(crate) fn spare_calls(&mut self) -> Vec<Call> {
        self.spare.pop().unwrap_or_default()
    }

    /// Gives up batches for which `gives_up` says so.
    pub(crate) fn forsake(
        &mut self,
        gives_up: impl Fn(&Flight) -> bool,
        answered: &mut Vec<Answered>,
    ) {
        for (tag, row) in self.rows.iter_mut().enumerate() {
            let Some(flight) = row.take_if(|flight| gives_up(flight)) else { continue };
            self.free.push(tag as u32);
            answered.extend(flight.calls.iter().map(|call| Answered {
                token: call.token,
                outcome: if call.writes { Outcome::Unknown } else { Outcome::Lost },
            }));
        }
    }

    /// Those that are left, as if nothing of their answers had come.
    pub(crate) fn begin_again(&mut self) -> impl Iterator<Item = &Flight> {
        self.rows.iter_mut().flatten().map(|flight| {
            flight.parts = 0;
            &*flight
        })
    }
}

const TOO_MUCH: &str = "it says that it wrote more than there was room for";
