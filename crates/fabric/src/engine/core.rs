//! What the streams of one lane share: operations, receives, credits, grants, and what is over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::in_flight::{Operation, Operations};
use crate::grants::Grants;
use crate::lane::Caps;
use crate::op::{Completion, Done, Failure, Op, Work};
use crate::stats::{SAMPLE, Stats};

pub(crate) struct Core {
    pub(crate) operations: Operations,
    pub(crate) grants: Grants,
    pub(crate) stats: Arc<Stats>,
    /// Receives posted and not used yet, in order.
    receives: VecDeque<Op>,
    /// How many receives were ever posted, how many were used, and of how many the peer knows.
    posted: u32,
    used: u32,
    reported: u32,
    /// Operations that wait for a receive of the peer's, and since when the first does.
    pub(super) waiting: VecDeque<u32>,
    waiting_since: Option<Instant>,
    /// How many receives the peer ever posted, and how many we have used.
    peer_posted: u32,
    peer_used: u32,
    patience: Duration,
    done: Vec<Completion>,
    posted_ops: u64,
    dead: Option<Failure>,
}

impl Core {
    pub(crate) fn new(patience: Duration) -> Self {
        Core {
            operations: Operations::default(),
            grants: Grants::default(),
            stats: Arc::default(),
            receives: VecDeque::new(),
            posted: 0,
            used: 0,
            reported: 0,
            waiting: VecDeque::new(),
            waiting_since: None,
            peer_posted: 0,
            peer_used: 0,
            patience,
            done: Vec::new(),
            posted_ops: 0,
            dead: None,
        }
    }

    /// Why the lane is dead.
    #[inline]
    pub(crate) fn dead(&self) -> Option<Failure> {
        self.dead
    }

    /// When this operation begins, if it is one of those that are timed.
    #[inline]
    pub(crate) fn clock(&mut self) -> Option<Instant> {
        self.posted_ops += 1;
        self.posted_ops.is_multiple_of(SAMPLE).then(Instant::now)
    }

    /// Whether an operation finds room.
    #[inline]
    pub(crate) fn has_room(&self, op: &Op, caps: &Caps) -> bool {
        match op.work {
            Work::Receive { .. } => self.receives.len() < caps.receives,
            _ => self.operations.operations() < caps.depth,
        }
    }

    // Receives of ours.

    pub(crate) fn post_receive(&mut self, op: Op) {
        self.receives.push_back(op);
        self.posted = self.posted.wrapping_add(1);
    }

    pub(super) fn take_receive(&mut self) -> Result<Op, Failure> {
        // The peer counts our receives: one that sends without is none of ours.
        let op = self.receives.pop_front().ok_or(Failure::ProtocolError)?;
        self.used = self.used.wrapping_add(1);
        Ok(op)
    }

    /// Revokes a receive whose message did not arrive in full.
    pub(super) fn return_receive(&mut self, op: Op) {
        match self.dead {
            Some(_) => self.complete(op, Err(Failure::Flushed)),
            None => self.receives.push_front(op),
        }
    }

    /// The count of receives that goes out with every frame.
    pub(super) fn credit(&self) -> u32 {
        self.posted
    }

    pub(super) fn reported(&mut self, credit: u32) {
        if credit.wrapping_sub(self.reported) < i32::MAX as u32 {
            self.reported = credit;
        }
    }

    /// Whether to report new receives to the peer: when it knows of fewer than half of them.
    pub(super) fn must_report(&self) -> bool {
        // The peer may have used what it learned from a frame that is not out in full.
        let known = self.reported.wrapping_sub(self.used).cast_signed().max(0).cast_unsigned();
        let there = self.posted.wrapping_sub(self.used);
        known < there && known <= there / 2
    }

    // Receives of the peer's.

    pub(super) fn peer_posted(&mut self, credit: u32) -> Result<(), Failure> {
        let more = credit.wrapping_sub(self.peer_posted);
        // Streams may overtake each other, so an older count is no lie.
        if more < i32::MAX as u32 {
            self.peer_posted = credit;
        }
        let left = self.peer_posted.wrapping_sub(self.peer_used);
        if left > MAX_RECEIVES { Err(Failure::ProtocolError) } else { Ok(()) }
    }

    /// Takes one of the peer's receives, if it has any left.
    #[inline]
    pub(super) fn use_peer_receive(&mut self) -> bool {
        if self.peer_posted == self.peer_used {
            return false;
        }
        self.peer_used = self.peer_used.wrapping_add(1);
        true
    }

    pub(super) fn wait_for_receive(&mut self, flight: u32) {
        self.waiting.push_back(flight);
        self.waiting_since.get_or_insert_with(Instant::now);
    }

    /// The next operation that has waited and may go now.
    pub(super) fn next_waiting(&mut self) -> Option<u32> {
        if self.waiting.is_empty() || !self.use_peer_receive() {
            return None;
        }
        // The next in line waits anew: something moved.
        self.waiting_since = (self.waiting.len() > 1).then(Instant::now);
        self.waiting.pop_front()
    }

    /// When the first in line will have waited too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.waiting_since.and_then(|since| since.checked_add(self.patience))
    }

    /// The operation that has waited too long.
    pub(super) fn overdue(&self) -> Option<u32> {
        let overdue = self.waiting_since?.elapsed() >= self.patience;
        self.waiting.front().copied().filter(|_| overdue)
    }

    // What is over.

    #[inline]
    pub(crate) fn complete(&mut self, op: Op, outcome: Result<Done, Failure>) {
        let completion = Completion { token: op.token, outcome, work: op.work };
        self.stats.count(&completion);
        self.done.push(completion);
    }

    #[inline]
    pub(super) fn land(&mut self, flight: u32, done: Done) {
        if let Some(Operation { op, begun, .. }) = self.operations.end(flight) {
            if let Some(begun) = begun {
                self.stats.time(begun.elapsed());
            }
            self.complete(op, Ok(done));
        }
    }

    /// Ends the lane. What was in flight comes back with `others`, and `cause` with the reason.
    pub(crate) fn die(&mut self, cause: Option<u32>, reason: Failure, others: Failure) {
        if self.dead.is_some() {
            return;
        }
        self.dead = Some(reason);
        self.stats.end(reason);
        self.waiting.clear();
        self.waiting_since = None;
        let cause = cause.map(|flight| self.operations.whole(flight));
        if let Some(flight) = cause.and_then(|flight| self.operations.end(flight)) {
            self.complete(flight.op, Err(reason));
        }
        let operations: Vec<Operation> = self.operations.drain().collect();
        for flight in operations {
            self.complete(flight.op, Err(others));
        }
        while let Some(op) = self.receives.pop_front() {
            self.complete(op, Err(others));
        }
    }

    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.dead.is_none()
    }

    pub(crate) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    #[inline]
    pub(crate) fn take_done(&mut self, into: &mut Vec<Completion>) -> usize {
        let count = self.done.len();
        match into.is_empty() {
            true => std::mem::swap(into, &mut self.done),
            false => into.append(&mut self.done),
        }
        count
    }
}

/// More receives than any peer of ours posts.
const MAX_RECEIVES: u32 = 1 << 20;
