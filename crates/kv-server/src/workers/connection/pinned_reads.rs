//! Values lent to a client on this host: it reads them where they lie, and says on its board when it has.
//!
//! A loan holds its value's pin until the client has taken the batch it answered, or its link is taken apart,
//! which waits for a client that is in the middle of reading.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use fabric::Lane;
use kv_proto::wire::Board;
use kv_store::Pin;

use super::{Guest, State};
use crate::engine::Engine;
use crate::workers::context::Tools;

/// What a client has and has not given back, oldest first.
pub(crate) struct Loans {
    engine: Arc<Engine>,
    lent: VecDeque<Loan>,
    bytes: u64,
    /// Emptied, to be used again.
    spare: Vec<Vec<Pin>>,
}

struct Loan {
    /// Of the note of the batch that it answers.
    sequence: u64,
    pins: Vec<Pin>,
    bytes: u64,
}

impl Loans {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        Loans { engine, lent: VecDeque::new(), bytes: 0, spare: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lent.is_empty()
    }

    fn take_back(&mut self, taken: u64) {
        while self.lent.front().is_some_and(|loan| loan.sequence <= taken) {
            let Some(mut loan) = self.lent.pop_front() else { return };
            self.bytes -= loan.bytes;
            loan.pins.drain(..).for_each(|pin| self.engine.store.unpin(pin));
            self.spare.push(loan.pins);
        }
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        self.take_back(u64::MAX);
    }
}

impl Guest {
    /// Whether more may be lent. Now and then this looks at what was given back.
    pub(super) fn may_lend(&mut self, tools: &mut Tools) -> bool {
        if self.loans.lent.len() >= OFTEN || self.loans.bytes >= MAX / 2 {
            self.reclaim(tools);
        }
        self.loans.bytes < MAX
    }

    /// The pins move here; what they came in is given back empty.
    pub(super) fn lend(
        &mut self,
        sequence: u64,
        pins: &mut Vec<Pin>,
        bytes: u64,
        tools: &mut Tools,
    ) {
        tools.debtors += usize::from(self.loans.lent.is_empty());
        let room = self.loans.spare.pop().unwrap_or_default();
        let pins = std::mem::replace(pins, room);
        self.loans.lent.push_back(Loan { sequence, pins, bytes });
        self.loans.bytes += bytes;
    }

    /// Revokes what the client has taken.
    pub(super) fn reclaim(&mut self, tools: &mut Tools) {
        if self.loans.lent.is_empty() {
            return;
        }
        if let (State::Client(client), Some(room)) = (&self.state, &self.room)
            && self.link.peek(&client.landing, Board::TAKEN as u64, &room.taken())
        {
            // What the client read, it read before it said so.
            fence(Ordering::Acquire);
            self.loans.take_back(room.read_taken());
            tools.debtors -= usize::from(self.loans.lent.is_empty());
        }
    }

    /// What is lent still, to be given up once the link is taken apart.
    pub(super) fn take_loans(&mut self, tools: &mut Tools) -> Loans {
        tools.debtors -= usize::from(!self.loans.lent.is_empty());
        std::mem::replace(&mut self.loans, Loans::new(tools.engine.clone()))
    }
}

/// How many batches may be lent before the board is looked at: that costs as much as a short answer.
const OFTEN: usize = 8;
/// How many bytes one client may have at a time; the rest is written to it.
const MAX: u64 = 8 << 20;
