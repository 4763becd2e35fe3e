//! What a lane is asked to do, and what it answers.

use std::fmt;
use std::slice;

use crate::region::Slice;
use crate::remote::Target;

/// One operation. While it is in flight the lane owns it, and with it the memory it uses; it comes
/// back in its [`Completion`].
///
/// So memory in flight cannot be used for another operation by mistake:
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
    /// The caller's name for it; the lane only repeats it.
    pub token: u64,
    /// What to do.
    pub work: Work,
}

/// What to do.
#[derive(Debug)]
pub enum Work {
    /// Writes into the peer's memory; with immediate data, if given, that completes one of the peer's
    /// receives after the bytes are there.
    Write {
        /// Bytes of ours.
        from: Pieces,
        /// Where they go.
        to: Target,
        /// Immediate data for the peer.
        imm: Option<u32>,
    },
    /// Reads the peer's memory.
    Read {
        /// Where the bytes go.
        into: Pieces,
        /// Bytes of the peer's.
        from: Target,
    },
    /// Sends a message into one of the peer's receives.
    Send {
        /// The message.
        from: Pieces,
        /// Immediate data beside it.
        imm: Option<u32>,
    },
    /// Takes one message of the peer's, or the immediate data of one of its writes.
    Receive {
        /// Room for the message.
        into: Pieces,
    },
    /// Adds to eight bytes of the peer's, aligned to eight, as one step.
    FetchAdd {
        /// Eight bytes of ours, aligned to eight, for the old value.
        old: Slice,
        /// The peer's number, in its own byte order.
        at: Target,
        /// What to add.
        add: u64,
    },
    /// Replaces eight bytes of the peer's, aligned to eight, if they are as expected, as one step.
    CompareSwap {
        /// Eight bytes of ours, aligned to eight, for the old value.
        old: Slice,
        /// The peer's number, in its own byte order.
        at: Target,
        /// What must be there.
        expect: u64,
        /// What will be there then.
        new: u64,
    },
}

/// Where an operation's bytes lie on this side: in one place or in several, in order.
#[derive(Debug)]
pub enum Pieces {
    /// In one place; costs no allocation.
    One(Slice),
    /// In several, or in none.
    Many(Vec<Slice>),
}

impl Pieces {
    /// No bytes at all.
    pub const EMPTY: Pieces = Pieces::Many(Vec::new());

    /// The places.
    #[inline]
    pub fn as_slice(&self) -> &[Slice] {
        match self {
            Pieces::One(one) => slice::from_ref(one),
            Pieces::Many(many) => many,
        }
    }

    /// The sum of their lengths.
    #[inline]
    pub fn total(&self) -> usize {
        match self {
            Pieces::One(one) => one.len(),
            Pieces::Many(many) => many.iter().map(Slice::len).sum(),
        }
    }
}

impl From<Slice> for Pieces {
    fn from(one: Slice) -> Self {
        Pieces::One(one)
    }
}

impl Op {
    /// Writes `from` to `to`.
    pub fn write(token: u64, from: impl Into<Pieces>, to: Target) -> Self {
        Op { token, work: Work::Write { from: from.into(), to, imm: None } }
    }

    /// Writes `from` to `to`, and then completes a receive of the peer's with `imm`.
    pub fn write_imm(token: u64, from: impl Into<Pieces>, to: Target, imm: u32) -> Self {
        Op { token, work: Work::Write { from: from.into(), to, imm: Some(imm) } }
    }

    /// Reads `from` into `into`.
    pub fn read(token: u64, into: impl Into<Pieces>, from: Target) -> Self {
        Op { token, work: Work::Read { into: into.into(), from } }
    }

    /// Sends a message.
    pub fn send(token: u64, from: impl Into<Pieces>) -> Self {
        Op { token, work: Work::Send { from: from.into(), imm: None } }
    }

    /// Receives a message.
    pub fn receive(token: u64, into: impl Into<Pieces>) -> Self {
        Op { token, work: Work::Receive { into: into.into() } }
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

    /// Where its bytes lie on this side.
    #[inline]
    pub(crate) fn local(&self) -> &[Slice] {
        match self {
            Work::Write { from: pieces, .. }
            | Work::Send { from: pieces, .. }
            | Work::Read { into: pieces, .. }
            | Work::Receive { into: pieces } => pieces.as_slice(),
            Work::FetchAdd { old, .. } | Work::CompareSwap { old, .. } => slice::from_ref(old),
        }
    }

    /// How many bytes it moves; of a receive, for how many it has room.
    #[inline]
    pub(crate) fn total(&self) -> usize {
        match self {
            Work::Write { from: pieces, .. }
            | Work::Send { from: pieces, .. }
            | Work::Read { into: pieces, .. }
            | Work::Receive { into: pieces } => pieces.total(),
            Work::FetchAdd { old, .. } | Work::CompareSwap { old, .. } => old.len(),
        }
    }

    /// The peer's memory it uses.
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

    /// As [`Work::target`], to be changed.
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

    /// Whether it uses up one of the peer's receives.
    #[inline]
    pub(crate) fn takes_a_receive(&self) -> bool {
        matches!(self, Work::Send { .. } | Work::Write { imm: Some(_), .. })
    }
}

// An operation is moved in and out at every step of its way.
const _: () = assert!(size_of::<Op>() <= 80 && size_of::<Completion>() <= 104);

/// The kinds that are counted apart.
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

/// An operation that is over, and all it owned.
#[derive(Debug)]
pub struct Completion {
    /// As the caller named it.
    pub token: u64,
    /// How it went.
    pub outcome: Result<Done, Failure>,
    /// What was asked for.
    pub work: Work,
}

/// How an operation succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// The bytes are in the peer's memory, or here for a read.
    Placed,
    /// A message or immediate data came.
    Received {
        /// How many bytes: of the message, or of the write the immediate data came with, by the peer's word. Over
        /// verbs that of the write's last part, where it was longer than the longest message.
        length: usize,
        /// The immediate data.
        imm: Option<u32>,
    },
    /// The number that was there before; it is in the operation's memory too.
    Old(u64),
}

/// Why an operation failed. After all but [`Failure::Unsupported`] the lane is dead: everything
/// in flight comes back, and so does everything posted later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The lane cannot do this, see [`Caps`](crate::Caps); nothing was sent and the lane goes on.
    Unsupported,
    /// The peer refused: wrong key, out of bounds, missing right, or a region that is gone.
    Access,
    /// The message is longer than the peer's receive, or longer than ours.
    TooLong,
    /// The peer had no receive posted for too long.
    NotReady,
    /// The peer, its process or the path to it is gone.
    PeerGone,
    /// The peer sent what no peer of ours sends.
    ProtocolError,
    /// The device refused our own memory or failed by itself.
    Local,
    /// The lane was dead or closed before this was done. It may have happened or not.
    Flushed,
    /// The peer was lost before it could say whether this took effect. Only a link says so: it would have
    /// done it again otherwise.
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
            Failure::Unsupported => "this lane cannot do it — ask its capabilities first",
            Failure::Access => {
                "the peer refused access — the region may be gone, too small or lack the right"
            }
            Failure::TooLong => "the message is longer than the receive — post larger receives",
            Failure::NotReady => "the peer posted no receive in time — let it post more of them",
            Failure::PeerGone => "the peer or the way to it is gone — connect anew",
            Failure::ProtocolError => "the peer broke the protocol — both ends must run Wirelane",
            Failure::Local => "the device refused our memory or failed — see the kernel's log",
            Failure::Flushed => "the lane ended before it was done — connect anew and ask again",
            Failure::Unknown => {
                "the peer was lost before it said whether this took effect — connect anew, and look"
            }
        })
    }
}

impl std::error::Error for Failure {}
