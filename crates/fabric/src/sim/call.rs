//! An operation on its way: what the sender waits for, and what is on the wire.

use std::time::Duration;

use crate::op::{Done, Failure, Op, Work};
use crate::region::Slice;
use crate::remote::{Reach, Target};

/// One operation and its packets. It outlives the sender's interest: a packet in the air lands even
/// when nobody waits for the answer any more.
pub(super) struct Call {
    /// The end that asked, and the one that is asked.
    pub(super) from: u32,
    pub(super) to: u32,
    /// Its place in the order of all operations of the lane.
    pub(super) order: u64,
    pub(super) request: Request,
    /// What the sender waits for; `None` once it was told how it went.
    pub(super) waiting: Option<Waiting>,
    /// What came of it at the target, where it happens once: a copy gets the same answer.
    pub(super) answer: Option<Result<Answer, Failure>>,
    /// Until when the target is busy sending the answer.
    pub(super) answer_leaves: Duration,
    /// How many packets are on the wire.
    pub(super) in_air: u32,
    /// How many times it was sent; tells timers of earlier times apart.
    pub(super) sent: u64,
    /// How many times in a row no answer came.
    pub(super) silences: u32,
    /// Since when the target says that it has no receive.
    pub(super) not_ready_since: Option<Duration>,
}

/// An operation whose sender waits.
pub(super) struct Waiting {
    pub(super) op: Op,
    pub(super) posted: Duration,
    /// Whether its time is a sample for the statistics.
    pub(super) timed: bool,
}

/// What is asked of the target. Holds the bytes as they were when posted: the sender's memory may be
/// used for other things while a late packet still carries them.
pub(super) enum Request {
    Write { key: u128, offset: u64, bytes: Vec<u8>, imm: Option<u32> },
    Read { key: u128, offset: u64, length: u64 },
    Send { bytes: Vec<u8>, imm: Option<u32> },
    Atomic { key: u128, offset: u64, change: Change },
}

/// What an atomic operation does to a number.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Add(u64),
    Swap { expect: u64, new: u64 },
}

/// What the target answers.
pub(super) enum Answer {
    Placed,
    Bytes(Vec<u8>),
    Old(u64),
}

impl Call {
    pub(super) fn new(from: u32, to: u32, order: u64, request: Request, waiting: Waiting) -> Self {
        Call {
            from,
            to,
            order,
            request,
            waiting: Some(waiting),
            answer: None,
            answer_leaves: Duration::ZERO,
            in_air: 0,
            sent: 0,
            silences: 0,
            not_ready_since: None,
        }
    }
}

impl Request {
    /// `None` where nothing is asked of the target: a receive, or a window of another kind of lane.
    pub(super) fn of(work: &Work) -> Option<Self> {
        Some(match work {
            Work::Write { from, to, imm } => {
                let (key, offset) = place(to)?;
                Request::Write { key, offset, bytes: gather(from.as_slice()), imm: *imm }
            }
            Work::Read { into, from } => {
                let (key, offset) = place(from)?;
                Request::Read { key, offset, length: into.total() as u64 }
            }
            Work::Send { from, imm } => Request::Send { bytes: gather(from.as_slice()), imm: *imm },
            Work::FetchAdd { at, add, .. } => {
                let (key, offset) = place(at)?;
                Request::Atomic { key, offset, change: Change::Add(*add) }
            }
            Work::CompareSwap { at, expect, new, .. } => {
                let (key, offset) = place(at)?;
                let change = Change::Swap { expect: *expect, new: *new };
                Request::Atomic { key, offset, change }
            }
            Work::Receive { .. } => return None,
        })
    }

    /// How many bytes it puts on the wire.
    pub(super) fn carries(&self) -> usize {
        match self {
            Request::Write { bytes, .. } | Request::Send { bytes, .. } => bytes.len(),
            Request::Read { .. } | Request::Atomic { .. } => 0,
        }
    }

    /// How many bytes its answer puts on the wire.
    pub(super) fn asks_for(&self) -> usize {
        match self {
            Request::Read { length, .. } => *length as usize,
            _ => 0,
        }
    }
}

impl Answer {
    /// Puts what came back where the operation wants it.
    pub(super) fn deliver(&self, work: &Work) -> Done {
        match self {
            Answer::Placed => Done::Placed,
            Answer::Bytes(bytes) => {
                scatter(bytes, work.local());
                Done::Placed
            }
            Answer::Old(number) => {
                let old = &work.local()[0];
                old.region().memory().store(old.offset(), *number);
                Done::Old(*number)
            }
        }
    }
}

impl Change {
    pub(super) fn apply(self, old: u64) -> u64 {
        match self {
            Change::Add(add) => old.wrapping_add(add),
            Change::Swap { expect, new } if old == expect => new,
            Change::Swap { .. } => old,
        }
    }
}

fn place(target: &Target) -> Option<(u128, u64)> {
    match *target.window.reach() {
        Reach::Ask { key } => Some((key, target.offset)),
        _ => None,
    }
}

fn gather(pieces: &[Slice]) -> Vec<u8> {
    pieces.iter().flat_map(Slice::to_vec).collect()
}

/// Copies bytes into pieces that have room for them.
pub(super) fn scatter(mut bytes: &[u8], pieces: &[Slice]) {
    for piece in pieces {
        let (part, rest) = bytes.split_at(piece.len().min(bytes.len()));
        piece.region().memory().write(piece.offset(), part);
        bytes = rest;
    }
}
