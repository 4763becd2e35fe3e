//! An operation in flight: the sender's state, and its packets.

use std::time::Duration;

use crate::op::{Done, Failure, Op, Work};
use crate::region::Slice;
use crate::remote::{AccessMethod, Target};

/// One operation and its packets. It may outlive the sender's operation: a packet in flight arrives even
/// if the sender does not wait for the answer any more.
pub(super) struct Call {
    /// The sender and the target.
    pub(super) from: u32,
    pub(super) to: u32,
    /// Its position in the order of all operations of the lane.
    pub(super) order: u64,
    pub(super) request: Request,
    /// The sender's operation; `None` once it is finished.
    pub(super) waiting: Option<WaitingOperation>,
    /// The target's answer. The request is executed once: retransmissions get the same answer.
    pub(super) answer: Option<Result<Answer, Failure>>,
    /// When the target has sent the answer.
    pub(super) answer_sent_at: Duration,
    /// The number of its packets in flight.
    pub(super) packets_in_flight: u32,
    /// How often it was sent; distinguishes timers of earlier attempts.
    pub(super) sent: u64,
    /// The number of consecutive timeouts without an answer.
    pub(super) timeouts: u32,
    /// Since when the target reports that it has no receive.
    pub(super) not_ready_since: Option<Duration>,
}

/// An operation whose sender waits.
pub(super) struct WaitingOperation {
    /// `None`: a packet.
    pub(super) op: Option<Op>,
    pub(super) posted: Duration,
    /// Whether its duration is a latency sample.
    pub(super) timed: bool,
}

/// The request to the target. It has a copy of the bytes: the sender's memory may be
/// reused while a late packet is still in flight.
pub(super) enum Request {
    Write { key: u128, offset: u64, bytes: Vec<u8>, imm: Option<u32> },
    Read { key: u128, offset: u64, length: u64 },
    Send { bytes: Vec<u8>, imm: Option<u32> },
    Atomic { key: u128, offset: u64, change: Change },
    Packet { bytes: Vec<u8> },
}

/// The change of a value by an atomic operation.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Add(u64),
    Swap { expect: u64, new: u64 },
}

/// The target's answer.
pub(super) enum Answer {
    Placed,
    Bytes(Vec<u8>),
    Old(u64),
}

impl Call {
    pub(super) fn new(
        from: u32,
        to: u32,
        order: u64,
        request: Request,
        waiting: WaitingOperation,
    ) -> Self {
        Call {
            from,
            to,
            order,
            request,
            waiting: Some(waiting),
            answer: None,
            answer_sent_at: Duration::ZERO,
            packets_in_flight: 0,
            sent: 0,
            timeouts: 0,
            not_ready_since: None,
        }
    }
}

impl Request {
    /// `None` if there is no request: a receive, or a window of another kind of lane.
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

    /// The payload of the request.
    pub(super) fn request_bytes(&self) -> usize {
        match self {
            Request::Write { bytes, .. }
            | Request::Send { bytes, .. }
            | Request::Packet { bytes } => bytes.len(),
            Request::Read { .. } | Request::Atomic { .. } => 0,
        }
    }

    /// The payload of the answer.
    pub(super) fn answer_bytes(&self) -> usize {
        match self {
            Request::Read { length, .. } => *length as usize,
            _ => 0,
        }
    }
}

impl Answer {
    /// Copies the answer to the operation's memory. For a packet there is none.
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
    match *target.window.access_method() {
        AccessMethod::Request { key } => Some((key, target.offset)),
        _ => None,
    }
}

fn gather(slices: &[Slice]) -> Vec<u8> {
    slices.iter().flat_map(Slice::to_vec).collect()
}

/// Copies bytes into slices, which must be large enough.
pub(super) fn scatter(mut bytes: &[u8], slices: &[Slice]) {
    for slice in slices {
        let (part, rest) = bytes.split_at(slice.len().min(bytes.len()));
        slice.region().memory().write(slice.offset(), part);
        bytes = rest;
    }
}
