//! What lanes say to each other, in front of a message's bytes or alone: read strictly, since it comes from outside.

use super::endpoint::Remote;
use crate::op::Failure;

/// How long a frame is with what is in front of it: the token that its receiver gave its peer alone, and how far its
/// sender is. An endpoint takes messages of everybody who finds it; those of unknown peers are known by their token.
pub(super) const HEADER: usize = 8 + Progress::ENCODED + Frame::ENCODED;

/// How long the parts are that long messages lie in.
pub(super) const PART: usize = 256 << 10;

/// A frame as it is sent.
#[inline]
pub(super) fn sealed(token: u64, progress: Progress, frame: Frame) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&token.to_le_bytes());
    bytes[8..8 + Progress::ENCODED].copy_from_slice(&progress.to_bytes());
    bytes[8 + Progress::ENCODED..].copy_from_slice(&frame.to_bytes());
    bytes
}

/// A frame that came. `None`: it is an unknown peer's.
#[inline]
pub(super) fn opened(
    token: u64,
    bytes: &[u8; HEADER],
) -> Option<Result<(Progress, Frame), Failure>> {
    let (shown, rest) = bytes.split_first_chunk()?;
    let (progress, frame) = rest.split_first_chunk()?;
    let frame = frame.try_into().ok()?;
    let opened = || Ok((Progress::from_bytes(progress), Frame::from_bytes(frame)?));
    (u64::from_le_bytes(*shown) == token).then(opened)
}

/// How far the sender of a frame is, counted from the beginning. Every frame tells it, so that in a conversation nothing
/// is sent for it alone.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// How many frames that take a buffer have come.
    pub(super) arrived: u64,
    /// How many of these buffers are free again.
    pub(super) freed: u64,
    /// How many messages were received.
    pub(super) received: u64,
}

impl Progress {
    const ENCODED: usize = 24;

    fn to_bytes(self) -> [u8; Self::ENCODED] {
        let mut bytes = [0; Self::ENCODED];
        let words = [self.arrived, self.freed, self.received];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::ENCODED]) -> Self {
        let word =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Progress { arrived: word(0), freed: word(8), received: word(16) }
    }
}

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// A part of a message; its bytes follow.
    Message { id: u64, total: u64, offset: u64, imm: Option<u32> },
    /// A part of a long message, which lies where the peer may read it: as long as parts are ([`PART`]), but for the last.
    Lying { id: u64, total: u64, offset: u64, imm: Option<u32>, from: Remote },
    /// The part of that message that begins there was read.
    Taken { id: u64, offset: u64 },
    /// The immediate data of a write that is placed. Counted as messages are.
    Immediate { id: u64, length: u64, imm: u32 },
    /// Asks for an atomic operation.
    Change { id: u64, key: u64, offset: u64, change: Change },
    /// Asks to write the bytes that follow, where the provider does not.
    Put { id: u64, key: u64, offset: u64 },
    /// Asks for bytes, where the provider does not read them.
    Get { id: u64, key: u64, offset: u64, length: u64 },
    /// Asks whether a key is any good.
    Doubt { id: u64, key: u64 },
    /// How a question ended: the old number, 0 where there is none to tell, or a refusal.
    Answer { id: u64, old: Option<u64> },
    /// The bytes that were asked for follow.
    Data { id: u64 },
    /// Nothing but how far its sender is.
    State,
    /// The lane ends, by the fault of a message or of none.
    Bye { failure: Failure, id: Option<u64> },
}

/// An atomic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Add(u64),
    Swap { expect: u64, new: u64 },
}

impl Frame {
    pub(super) const ENCODED: usize = 48;

    pub(super) fn to_bytes(self) -> [u8; Self::ENCODED] {
        let (kind, imm, words) = match self {
            Frame::Message { id, total, offset, imm: None } => (1, 0, [id, total, offset, 0, 0]),
            Frame::Message { id, total, offset, imm: Some(imm) } => {
                (2, imm, [id, total, offset, 0, 0])
            }
            Frame::Immediate { id, length, imm } => (3, imm, [id, length, 0, 0, 0]),
            Frame::Change { id, key, offset, change: Change::Add(add) } => {
                (4, 0, [id, key, offset, add, 0])
            }
            Frame::Change { id, key, offset, change: Change::Swap { expect, new } } => {
                (5, 0, [id, key, offset, expect, new])
            }
            Frame::Doubt { id, key } => (6, 0, [id, key, 0, 0, 0]),
            Frame::Answer { id, old: Some(old) } => (7, 0, [id, old, 0, 0, 0]),
            Frame::Answer { id, old: None } => (8, 0, [id, 0, 0, 0, 0]),
            Frame::State => (9, 0, [0; 5]),
            Frame::Put { id, key, offset } => (12, 0, [id, key, offset, 0, 0]),
            Frame::Get { id, key, offset, length } => (13, 0, [id, key, offset, length, 0]),
            Frame::Data { id } => (14, 0, [id, 0, 0, 0, 0]),
            Frame::Lying { id, total, offset, imm, from } => {
                let kind = if imm.is_some() { 16 } else { 15 };
                (kind, imm.unwrap_or(0), [id, total, offset, from.address, from.key])
            }
            Frame::Taken { id, offset } => (17, 0, [id, offset, 0, 0, 0]),
            Frame::Bye { failure, id: None } => (10, failure as u32, [0; 5]),
            Frame::Bye { failure, id: Some(id) } => (11, failure as u32, [id, 0, 0, 0, 0]),
        };
        let mut bytes = [0; Self::ENCODED];
        (bytes[0], bytes[1]) = (Self::VERSION, kind);
        bytes[4..8].copy_from_slice(&imm.to_le_bytes());
        for (place, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; Self::ENCODED]) -> Result<Self, Failure> {
        let word = |at: usize| {
            u64::from_le_bytes(bytes[8 + 8 * at..16 + 8 * at].try_into().expect("eight bytes"))
        };
        let number = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        let failure = || Failure::ALL.get(number as usize).copied().ok_or(Failure::ProtocolError);
        let [id, second, third, fourth, fifth] = [0, 1, 2, 3, 4].map(word);
        let frame = match bytes[1] {
            1 => Frame::Message { id, total: second, offset: third, imm: None },
            2 => Frame::Message { id, total: second, offset: third, imm: Some(number) },
            3 => Frame::Immediate { id, length: second, imm: number },
            4 => Frame::Change { id, key: second, offset: third, change: Change::Add(fourth) },
            5 => {
                let change = Change::Swap { expect: fourth, new: fifth };
                Frame::Change { id, key: second, offset: third, change }
            }
            6 => Frame::Doubt { id, key: second },
            7 => Frame::Answer { id, old: Some(second) },
            8 => Frame::Answer { id, old: None },
            9 => Frame::State,
            10 => Frame::Bye { failure: failure()?, id: None },
            11 => Frame::Bye { failure: failure()?, id: Some(id) },
            12 => Frame::Put { id, key: second, offset: third },
            13 => Frame::Get { id, key: second, offset: third, length: fourth },
            14 => Frame::Data { id },
            kind @ (15 | 16) => {
                let imm = (kind == 16).then_some(number);
                let from = Remote { address: fourth, key: fifth };
                Frame::Lying { id, total: second, offset: third, imm, from }
            }
            17 => Frame::Taken { id, offset: second },
            _ => return Err(Failure::ProtocolError),
        };
        // Whatever is not used is zero, so that a later version can use it.
        if frame.to_bytes() == *bytes { Ok(frame) } else { Err(Failure::ProtocolError) }
    }

    /// Whether it waits in a buffer that was promised to it.
    pub(super) fn takes_a_buffer(&self) -> bool {
        matches!(
            self,
            Frame::Message { .. }
                | Frame::Lying { .. }
                | Frame::Immediate { .. }
                | Frame::Change { .. }
                | Frame::Put { .. }
                | Frame::Get { .. }
        )
    }

    const VERSION: u8 = 3;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were() {
        let (id, key, offset) = (7, u64::MAX, 9);
        for frame in [
            Frame::Message { id, total: 100, offset, imm: None },
            Frame::Message { id, total: 100, offset, imm: Some(0) },
            Frame::Lying { id, total: 100, offset, imm: None, from: Remote { address: 4, key } },
            Frame::Lying {
                id,
                total: 1,
                offset: 0,
                imm: Some(8),
                from: Remote { address: 0, key },
            },
            Frame::Taken { id, offset },
            Frame::Immediate { id, length: 1 << 40, imm: u32::MAX },
            Frame::Change { id, key, offset, change: Change::Add(5) },
            Frame::Change { id, key, offset, change: Change::Swap { expect: 1, new: 2 } },
            Frame::Put { id, key, offset },
            Frame::Get { id, key, offset, length: 5 },
            Frame::Data { id },
            Frame::Doubt { id, key },
            Frame::Answer { id, old: Some(4) },
            Frame::Answer { id, old: None },
            Frame::State,
            Frame::Bye { failure: Failure::TooLong, id: Some(3) },
            Frame::Bye { failure: Failure::Flushed, id: None },
        ] {
            assert_eq!(Frame::from_bytes(&frame.to_bytes()), Ok(frame));
        }
    }

    #[test]
    fn unknown_peers_are_known_by_their_token() {
        let frame = Frame::Doubt { id: 1, key: 2 };
        let progress = Progress { arrived: 3, freed: 2, received: 1 };
        let bytes = sealed(77, progress, frame);
        assert_eq!(opened(77, &bytes), Some(Ok((progress, frame))));
        assert_eq!(opened(78, &bytes), None);
        let mut bad = bytes;
        bad[8 + Progress::ENCODED] = 9;
        assert_eq!(opened(77, &bad), Some(Err(Failure::ProtocolError)));
    }

    #[test]
    fn invalid_bytes_are_refused() {
        let good = Frame::Answer { id: 3, old: Some(2) }.to_bytes();
        for (at, value) in [(0, 1), (1, 0), (1, 18), (2, 1), (4, 1), (40, 1), (47, 1)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(Frame::from_bytes(&bad), Err(Failure::ProtocolError), "{at}");
        }
        let mut bye = Frame::Bye { failure: Failure::TooLong, id: None }.to_bytes();
        bye[4] = 200;
        assert_eq!(Frame::from_bytes(&bye), Err(Failure::ProtocolError));
    }
}
