//! One end of a lane: what it was asked to do, and what peers may do with its memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::call::{Answer, Change, Request, scatter};
use crate::grants::Grants;
use crate::op::{Completion, Done, Failure, Op, OpKind, Work};
use crate::region::Rights;
use crate::setup::Side;

/// One end of a lane.
pub(super) struct End {
    pub(super) host: String,
    pub(super) rail: String,
    pub(super) side: Side,
    pub(super) state: EndState,
    pub(super) peer: Option<u32>,
    pub(super) grants: Grants,
    /// Our calls that are not over. The first is the oldest.
    pub(super) calls: BTreeSet<u64>,
    pub(super) receives: VecDeque<Op>,
    /// How many calls were begun: the order of the next.
    pub(super) begun: u64,
    pub(super) arrivals: Arrivals,
    /// What is over and was not polled for yet.
    over: VecDeque<Over>,
    /// How many operations were taken and not given back: receives, and all others.
    pub(super) receives_held: usize,
    pub(super) others_held: usize,
    /// Rings when something is over.
    wakeup: Arc<OwnedFd>,
}

/// What can be done with an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndState {
    /// It has no peer yet.
    Half,
    /// It works.
    Live,
    /// It failed or was closed: operations come back, and nothing reaches its memory.
    Dead,
    /// Its host was killed: nothing ever comes back.
    Killed,
}

/// Which of the peer's calls were served: they arrive in any order, and copies of them too.
#[derive(Default)]
pub(super) struct Arrivals {
    /// All before this one are served.
    next: u64,
    /// Some after it too, where operations need not keep their order.
    ahead: BTreeSet<u64>,
    /// Calls that came before their turn, by order.
    pub(super) early: BTreeMap<u64, u64>,
}

/// A completion, and how long it took if that is a sample.
pub(super) struct Over {
    pub(super) completion: Completion,
    pub(super) took: Option<Duration>,
}

/// What came of a request.
pub(super) enum Served {
    Done(Answer),
    /// There is no receive for it.
    NotReady,
    /// The lane ends, at both ends.
    Refused(Failure),
}

impl End {
    pub(super) fn new(host: &str, rail: &str, side: Side, wakeup: Arc<OwnedFd>) -> Self {
        End {
            host: host.to_owned(),
            rail: rail.to_owned(),
            side,
            state: EndState::Half,
            peer: None,
            grants: Grants::default(),
            calls: BTreeSet::new(),
            receives: VecDeque::new(),
            begun: 0,
            arrivals: Arrivals::default(),
            over: VecDeque::new(),
            receives_held: 0,
            others_held: 0,
            wakeup,
        }
    }

    /// Counts an operation that was taken, until it is given back.
    pub(super) fn held(&mut self, kind: OpKind) -> &mut usize {
        if kind == OpKind::Receive { &mut self.receives_held } else { &mut self.others_held }
    }

    /// Tells the owner that an operation is over.
    pub(super) fn finish(
        &mut self,
        op: Op,
        outcome: Result<Done, Failure>,
        took: Option<Duration>,
    ) {
        let completion = Completion { token: op.token, outcome, work: op.work };
        self.over.push_back(Over { completion, took });
        // Cannot fail short of 2^64 rings without a reader.
        let _ = rustix::io::write(&*self.wakeup, &1u64.to_ne_bytes());
    }

    /// What is over next, for its owner.
    pub(super) fn take_over(&mut self) -> Option<Over> {
        let over = self.over.pop_front()?;
        *self.held(over.completion.work.kind()) -= 1;
        Some(over)
    }

    /// Makes the wakeup silent, unless there is a reason to ring. Says whether there is none.
    pub(super) fn hush(&self) -> bool {
        if self.over.is_empty() {
            // It does not block; not having rung is fine.
            let _ = rustix::io::read(&*self.wakeup, &mut [0; 8]);
        }
        self.over.is_empty()
    }

    /// Does what a peer asks, if it may.
    pub(super) fn serve(&mut self, request: &Request) -> Served {
        let served = match request {
            Request::Write { key, offset, bytes, imm: None } => self.place(*key, *offset, bytes),
            Request::Write { key, offset, bytes, imm: Some(imm) } => {
                self.place_and_notify(*key, *offset, bytes, *imm)
            }
            Request::Read { key, offset, length } => self.read(*key, *offset, *length),
            Request::Send { bytes, imm } => return self.receive(bytes, *imm),
            Request::Atomic { key, offset, change } => self.change(*key, *offset, *change),
        };
        served.unwrap_or_else(Served::Refused)
    }

    fn place(&self, key: u128, offset: u64, bytes: &[u8]) -> Result<Served, Failure> {
        let to = self.grants.check(key, offset, bytes.len() as u64, WRITE)?;
        scatter(bytes, &[to]);
        Ok(Served::Done(Answer::Placed))
    }

    fn place_and_notify(
        &mut self,
        key: u128,
        offset: u64,
        bytes: &[u8],
        imm: u32,
    ) -> Result<Served, Failure> {
        let to = self.grants.check(key, offset, bytes.len() as u64, WRITE)?;
        let Some(receive) = self.receives.pop_front() else { return Ok(Served::NotReady) };
        scatter(bytes, &[to]);
        // After the bytes are there: that is what immediate data means.
        self.finish(receive, Ok(Done::Received { length: bytes.len(), imm: Some(imm) }), None);
        Ok(Served::Done(Answer::Placed))
    }

    fn read(&self, key: u128, offset: u64, length: u64) -> Result<Served, Failure> {
        let from = self.grants.check(key, offset, length, READ)?;
        Ok(Served::Done(Answer::Bytes(from.to_vec())))
    }

    /// A load and a store are one step here: whoever changes the number by a simulated lane holds the
    /// world's lock. The owner's own stores are not held off, as they are not by a NIC.
    fn change(&self, key: u128, offset: u64, change: Change) -> Result<Served, Failure> {
        let word = self.grants.check_word(key, offset)?;
        let memory = word.region().memory();
        let old = memory.load(word.offset());
        memory.store(word.offset(), change.apply(old));
        Ok(Served::Done(Answer::Old(old)))
    }

    fn receive(&mut self, bytes: &[u8], imm: Option<u32>) -> Served {
        let Some(receive) = self.receives.pop_front() else { return Served::NotReady };
        if receive.work.total() < bytes.len() {
            self.finish(receive, Err(Failure::TooLong), None);
            return Served::Refused(Failure::TooLong);
        }
        scatter(bytes, receive.work.local());
        self.finish(receive, Ok(Done::Received { length: bytes.len(), imm }), None);
        Served::Done(Answer::Placed)
    }

    /// Whether the lane can do this at all. `lane` is the number windows must have.
    pub(super) fn supports(work: &Work, lane: u64) -> bool {
        let ours = work.target().is_none_or(|target| target.window.lane() == lane);
        let fits = match work {
            Work::FetchAdd { old, .. } | Work::CompareSwap { old, .. } => {
                old.len() == 8 && old.address().addr().is_multiple_of(8)
            }
            Work::Send { .. } => work.total() <= MAX_MESSAGE,
            _ => true,
        };
        ours && fits && work.local().len() <= MAX_PIECES
    }
}

impl Arrivals {
    /// Whether everything before this call was served.
    pub(super) fn is_next(&self, order: u64) -> bool {
        order == self.next
    }

    /// Notes a call as served.
    pub(super) fn served(&mut self, order: u64) {
        self.early.remove(&order);
        self.ahead.insert(order);
        while self.ahead.remove(&self.next) {
            self.next += 1;
        }
    }

    /// The call whose turn it is, if it came early.
    pub(super) fn next_early(&mut self) -> Option<u64> {
        self.early.remove(&self.next)
    }
}

pub(super) const MAX_MESSAGE: usize = 1 << 30;
pub(super) const MAX_PIECES: usize = 16;
const READ: Rights = Rights { read: true, ..Rights::NONE };
const WRITE: Rights = Rights { write: true, ..Rights::NONE };
