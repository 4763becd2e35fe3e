//! Operations, and their completions.

use std::fmt;
use std::slice;

use crate::region::Slice;
use crate::remote::Target;

/// One operation. While it is in flight the lane owns it, and with it the memory it uses; it is
/// returned in its [`Completion`].
///
/// Memory in flight therefore cannot be used for another operation by mistake:
/// ```compile_fail,E0382
/// fn twice(buffer: fabric::Slice, to: fabric::Target) -> [fabric::Op; 2] {
///     let first = fabric::Op::write(1, buffer, to.clone());
///     [first, fabric::Op::write(2, buffer, to)] // moved already
/// }
/// ```
/// and an operation cannot outlive its memory, since it has no lifetime to outlive:
/// ```
/// fn owns_all<T: 'static>() {}
/// owns_all::<fabric::Op>();
/// ```
#[derive(Debug)]
pub struct Op {
    /// Chosen by the caller; the lane only copies it into the completion.
    pub op_id: u64,
    /// What to do.
    pub work: Work,
}

/// The kind of an operation, and its memory.
#[derive(Debug)]
pub enum Work {
    /// Writes into the peer's memory. Immediate data, if given, completes one of the peer's
    /// receives after the bytes are written.
    Write {
        /// Local bytes.
        from: Slices,
        /// Where they are written.
        to: Target,
        /// Immediate data for the peer.
        imm: Option<u32>,
    },
    /// Reads the peer's memory.
    Read {
        /// Local memory for the bytes.
        into: Slices,
        /// The peer's memory.
        from: Target,
    },
    /// Sends a message into one of the peer's receives.
    Send {
        /// The message.
        from: Slices,
        /// Immediate data with it.
        imm: Option<u32>,
    },
    /// Receives one message of the peer, or the immediate data of one of its writes.
    Receive {
        /// Memory for the message.
        into: Slices,
    },
    /// Adds to eight bytes of the peer's memory, aligned to eight, atomically.
    FetchAdd {
        /// Eight local bytes, aligned to eight, for the old value.
        old: Slice,
        /// The peer's value, in its byte order.
        at: Target,
        /// The summand.
        add: u64,
    },
    /// Replaces eight bytes of the peer's memory, aligned to eight, if they equal `expect`, atomically.
    CompareSwap {
        /// Eight local bytes, aligned to eight, for the old value.
        old: Slice,
        /// The peer's value, in its byte order.
        at: Target,
        /// The expected value.
        expect: u64,
        /// The new value.
        new: u64,
    },
}

/// An operation's local memory: one slice or several, in order.
#[derive(Debug)]
pub enum Slices {
    /// One slice; needs no allocation.
    One(Slice),
    /// Several slices, or none.
    Many(Vec<Slice>),
}

impl Slices {
    /// No bytes.
    pub const EMPTY: Slices = Slices::Many(Vec::new());

    /// The slices.
    #[inline]
    pub fn as_slice(&self) -> &[Slice] {
        match self {
            Slices::One(one) => slice::from_ref(one),
            Slices::Many(many) => many,
        }
    }

    /// The sum of their lengths.
    #[inline]
    pub fn total(&self) -> usize {
        match self {
            Slices::One(one) => one.len(),
            Slices::Many(many) => many.iter().map(Slice::len).sum(),
        }
    }
}

impl From<Slice> for Slices {
    fn from(one: Slice) -> Self {
        Slices::One(one)
    }
}

impl Op {
    /// Writes `from` to `to`.
    pub fn write(op_id: u64, from: impl Into<Slices>, to: Target) -> Self {
        Op { op_id, work: Work::Write { from: from.into(), to, imm: None } }
    }

    /// Writes `from` to `to`, and then completes one of the peer's receives with `imm`.
    pub fn write_imm(op_id: u64, from: impl Into<Slices>, to: Target, imm: u32) -> Self {
        Op { op_id, work: Work::Write { from: from.into(), to, imm: Some(imm) } }
    }

    /// Reads `from` into `into`.
    pub fn read(op_id: u64, into: impl Into<Slices>, from: Target) -> Self {
        Op { op_id, work: Work::Read { into: into.into(), from } }
    }

    /// Sends a message.
    pub fn send(op_id: u64, from: impl Into<Slices>) -> Self {
        Op { op_id, work: Work::Send { from: from.into(), imm: None } }
    }

    /// Receives a message.
    pub fn receive(op_id: u64, into: impl Into<Slices>) -> Self {
        Op { op_id, work: Work::Receive { into: into.into() } }
    }
}

impl Work {
    /// Which kind it is.
    #[inline]
    pub fn kind(&self) -> OpKind {
        match self {
            Work::Write { .. } => OpKind::Write,
            Work::Read { .. } => OpKind::Read,
            Work::Send { .. } => OpKind::Send,
            Work::Receive { .. } => OpKind::Receive,
            Work::FetchAdd { .. } | Work::CompareSwap { .. } => OpKind::Atomic,
        }
    }

    /// Its local memory.
    #[inline]
    pub(crate) fn local(&self) -> &[Slice] {
        match self {
            Work::Write { from: slices, .. }
            | Work::Send { from: slices, .. }
            | Work::Read { into: slices, .. }
            | Work::Receive { into: slices } => slices.as_slice(),
            Work::FetchAdd { old, .. } | Work::CompareSwap { old, .. } => slice::from_ref(old),
        }
    }

    /// The number of bytes it transfers; of a receive, its capacity.
    #[inline]
    pub(crate) fn total(&self) -> usize {
        match self {
            Work::Write { from: slices, .. }
            | Work::Send { from: slices, .. }
            | Work::Read { into: slices, .. }
            | Work::Receive { into: slices } => slices.total(),
            Work::FetchAdd { old, .. } | Work::CompareSwap { old, .. } => old.len(),
        }
    }

    /// The peer's memory that it uses.
    #[inline]
    pub(crate) fn target(&self) -> Option<&Target> {
        match self {
            Work::Write { to: target, .. }
            | Work::Read { from: target, .. }
            | Work::FetchAdd { at: target, .. }
            | Work::CompareSwap { at: target, .. } => Some(target),
            Work::Send { .. } | Work::Receive { .. } => None,
        }
    }

    /// As [`Work::target`], mutable.
    #[inline]
    pub(crate) fn target_mut(&mut self) -> Option<&mut Target> {
        match self {
            Work::Write { to: target, .. }
            | Work::Read { from: target, .. }
            | Work::FetchAdd { at: target, .. }
            | Work::CompareSwap { at: target, .. } => Some(target),
            Work::Send { .. } | Work::Receive { .. } => None,
        }
    }

    /// Whether it consumes one of the peer's receives.
    #[inline]
    pub(crate) fn consumes_receive(&self) -> bool {
        matches!(self, Work::Send { .. } | Work::Write { imm: Some(_), .. })
    }
}

// Operations are moved at every step, so they are kept small.
const _: () = assert!(size_of::<Op>() <= 80 && size_of::<Completion>() <= 104);

/// The kinds that are counted separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// Writes, with and without immediate data.
    Write,
    /// Reads.
    Read,
    /// Sends.
    Send,
    /// Receives.
    Receive,
    /// Both kinds of atomic operation.
    Atomic,
}

impl OpKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [OpKind; 5] =
        [OpKind::Write, OpKind::Read, OpKind::Send, OpKind::Receive, OpKind::Atomic];

    /// Its name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Write => "write",
            OpKind::Read => "read",
            OpKind::Send => "send",
            OpKind::Receive => "recv",
            OpKind::Atomic => "atomic",
        }
    }
}

/// A finished operation, and the memory it owned.
#[derive(Debug)]
pub struct Completion {
    /// The `op_id` of the operation.
    pub op_id: u64,
    /// Its result.
    pub outcome: Result<Done, Failure>,
    /// The operation.
    pub work: Work,
}

/// The result of a successful operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// The bytes were transferred.
    Placed,
    /// A message or immediate data was received.
    Received {
        /// The length of the message, or of the write with the immediate data, as the peer states it. Over
        /// verbs that of the write's last part, if it was longer than the longest message.
        length: usize,
        /// The immediate data.
        imm: Option<u32>,
    },
    /// The value before an atomic operation; it is in the operation's memory too.
    Old(u64),
}

/// Why an operation failed. After all but [`Failure::Unsupported`] the lane is dead: everything
/// in flight is returned as failed, and so is everything posted later. Not so on a [`Link`](crate::link::Link), which
/// goes on over other lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The lane does not support this, see [`Caps`](crate::Caps); nothing was sent and the lane still works.
    Unsupported,
    /// The peer refused: wrong key, out of bounds, missing right, or a region that was dropped.
    Access,
    /// A message is longer than the receive, ours or the peer's.
    TooLong,
    /// The peer posted no receive within the timeout.
    NotReady,
    /// The peer, its process or the path to it is gone.
    PeerGone,
    /// The peer violated the protocol.
    ProtocolError,
    /// The device refused local memory, or failed.
    Local,
    /// The lane failed or was closed before this completed. It may have taken effect or not.
    Flushed,
    /// The peer was lost before it confirmed whether this took effect. Only links return this: they
    /// retry in other cases.
    Unknown,
}

impl Failure {
    /// All of them, in the order of their numbers.
    pub const ALL: [Failure; 9] = [
        Failure::Unsupported,
        Failure::Access,
        Failure::TooLong,
        Failure::NotReady,
        Failure::PeerGone,
        Failure::ProtocolError,
        Failure::Local,
        Failure::Flushed,
        Failure::Unknown,
    ];

    /// Its name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Unsupported => "unsupported",
            Failure::Access => "access",
            Failure::TooLong => "too_long",
            Failure::NotReady => "not_ready",
            Failure::PeerGone => "peer_gone",
            Failure::ProtocolError => "protocol_error",
            Failure::Local => "local",
            Failure::Flushed => "flushed",
            Failure::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Unsupported => "this lane does not support the operation — check its capabilities",
            Failure::Access => {
            "the peer refused access — the region may be dropped, too small or lack the right"
            }
            Failure::TooLong => "the message is longer than the receive — post larger receives",
            Failure::NotReady => "the peer posted no receive in time — post more receives there",
            Failure::PeerGone => "the peer or the path to it is gone — reconnect",
            Failure::ProtocolError => "the peer violated the protocol — both ends must run Wirelane",
            Failure::Local => "the device refused local memory or failed — see the kernel log",
            Failure::Flushed => "the lane ended before the operation completed — reconnect and check whether it took effect",
            Failure::Unknown => {
                "the peer was lost before it confirmed the operation — reconnect and check whether it took effect"
            }
        })
    }
}

impl std::error::Error for Failure {}
