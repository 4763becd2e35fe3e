//! The frames that lanes exchange, with or without a payload, and their encoding. Decoding is strict, since the bytes
//! are untrusted.

use super::endpoint::Remote;
use crate::op::Failure;

/// The length of a frame with the receiver's secret and the sender's progress before it. An endpoint receives messages of any
/// sender; those of unknown peers lack the secret, which was sent only to the peer.
pub(super) const HEADER_BYTES: usize = 8 + Progress::ENCODED + Frame::ENCODED;

/// The length of the fragments of long messages in rendezvous buffers.
pub(super) const FRAGMENT_BYTES: usize = 256 << 10;

/// Encodes a frame with its secret and progress.
#[inline]
pub(super) fn encode_frame(secret: u64, progress: Progress, frame: Frame) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&secret.to_le_bytes());
    bytes[8..8 + Progress::ENCODED].copy_from_slice(&progress.to_bytes());
    bytes[8 + Progress::ENCODED..].copy_from_slice(&frame.to_bytes());
    bytes
}

/// Decodes a frame. `None` if it was sent by an unknown peer.
#[inline]
pub(super) fn decode_frame(
    secret: u64,
    bytes: &[u8; HEADER_BYTES],
) -> Option<Result<(Progress, Frame), Failure>> {
    let (sent_secret, rest) = bytes.split_first_chunk()?;
    let (progress, frame) = rest.split_first_chunk()?;
    let frame = frame.try_into().ok()?;
    let decoded = || Ok((Progress::from_bytes(progress), Frame::from_bytes(frame)?));
    (u64::from_le_bytes(*sent_secret) == secret).then(decoded)
}

/// The progress of a frame's sender, counted from the lane's start. Every frame contains it, so that with traffic in both
/// directions no separate reports are needed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// The number of received frames that occupy a buffer.
    pub(super) arrived: u64,
    /// The number of these buffers that were freed again.
    pub(super) freed: u64,
    /// The number of messages received.
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

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// A fragment of a message; its payload follows.
    Message { id: u64, total: u64, offset: u64, imm: Option<u32> },
    /// A fragment of a long message in a rendezvous buffer, for the peer to read: [`FRAGMENT_BYTES`] long, except the last.
    Rendezvous { id: u64, total: u64, offset: u64, imm: Option<u32>, from: Remote },
    /// The fragment at this offset was read.
    FragmentRead { id: u64, offset: u64 },
    /// The immediate data of a placed write. Numbered as a message.
    Immediate { id: u64, length: u64, imm: u32 },
    /// Requests an atomic operation.
    Atomic { id: u64, key: u64, offset: u64, op: AtomicOp },
    /// Requests to write the payload, if the provider's writes are not used.
    Put { id: u64, key: u64, offset: u64 },
    /// Requests bytes, if the provider's reads are not used.
    Get { id: u64, key: u64, offset: u64, length: u64 },
    /// Queries whether a key is valid.
    CheckKey { id: u64, key: u64 },
    /// The result of a request: the old value of an atomic, 0 for other requests, `None` if refused.
    Reply { id: u64, old: Option<u64> },
    /// The requested bytes, as payload.
    Data { id: u64 },
    /// Reports the sender's progress only.
    ProgressOnly,
    /// The sender closes the lane, possibly because of a message.
    Close { failure: Failure, id: Option<u64> },
}

/// An atomic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtomicOp {
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
            Frame::Atomic { id, key, offset, op: AtomicOp::Add(add) } => {
                (4, 0, [id, key, offset, add, 0])
            }
            Frame::Atomic { id, key, offset, op: AtomicOp::Swap { expect, new } } => {
                (5, 0, [id, key, offset, expect, new])
            }
            Frame::CheckKey { id, key } => (6, 0, [id, key, 0, 0, 0]),
            Frame::Reply { id, old: Some(old) } => (7, 0, [id, old, 0, 0, 0]),
            Frame::Reply { id, old: None } => (8, 0, [id, 0, 0, 0, 0]),
            Frame::ProgressOnly => (9, 0, [0; 5]),
            Frame::Put { id, key, offset } => (12, 0, [id, key, offset, 0, 0]),
            Frame::Get { id, key, offset, length } => (13, 0, [id, key, offset, length, 0]),
            Frame::Data { id } => (14, 0, [id, 0, 0, 0, 0]),
            Frame::Rendezvous { id, total, offset, imm, from } => {
                let kind = if imm.is_some() { 16 } else { 15 };
                (kind, imm.unwrap_or(0), [id, total, offset, from.address, from.key])
            }
            Frame::FragmentRead { id, offset } => (17, 0, [id, offset, 0, 0, 0]),
            Frame::Close { failure, id: None } => (10, failure as u32, [0; 5]),
            Frame::Close { failure, id: Some(id) } => (11, failure as u32, [id, 0, 0, 0, 0]),
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
            4 => Frame::Atomic { id, key: second, offset: third, op: AtomicOp::Add(fourth) },
            5 => {
                let op = AtomicOp::Swap { expect: fourth, new: fifth };
                Frame::Atomic { id, key: second, offset: third, op }
            }
            6 => Frame::CheckKey { id, key: second },
            7 => Frame::Reply { id, old: Some(second) },
            8 => Frame::Reply { id, old: None },
            9 => Frame::ProgressOnly,
            10 => Frame::Close { failure: failure()?, id: None },
            11 => Frame::Close { failure: failure()?, id: Some(id) },
            12 => Frame::Put { id, key: second, offset: third },
            13 => Frame::Get { id, key: second, offset: third, length: fourth },
            14 => Frame::Data { id },
            kind @ (15 | 16) => {
                let imm = (kind == 16).then_some(number);
                let from = Remote { address: fourth, key: fifth };
                Frame::Rendezvous { id, total: second, offset: third, imm, from }
            }
            17 => Frame::FragmentRead { id, offset: second },
            _ => return Err(Failure::ProtocolError),
        };
        // Unused bytes must be zero, so that a later version can use them.
        if frame.to_bytes() == *bytes { Ok(frame) } else { Err(Failure::ProtocolError) }
    }

    /// Whether it occupies one of the receiver's buffers, and so uses credit.
    pub(super) fn takes_a_buffer(&self) -> bool {
        matches!(
            self,
            Frame::Message { .. }
                | Frame::Rendezvous { .. }
                | Frame::Immediate { .. }
                | Frame::Atomic { .. }
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
    fn frames_decode_to_what_was_encoded() {
        let (id, key, offset) = (7, u64::MAX, 9);
        for frame in [
            Frame::Message { id, total: 100, offset, imm: None },
            Frame::Message { id, total: 100, offset, imm: Some(0) },
            Frame::Rendezvous {
                id,
                total: 100,
                offset,
                imm: None,
                from: Remote { address: 4, key },
            },
            Frame::Rendezvous {
                id,
                total: 1,
                offset: 0,
                imm: Some(8),
                from: Remote { address: 0, key },
            },
            Frame::FragmentRead { id, offset },
            Frame::Immediate { id, length: 1 << 40, imm: u32::MAX },
            Frame::Atomic { id, key, offset, op: AtomicOp::Add(5) },
            Frame::Atomic { id, key, offset, op: AtomicOp::Swap { expect: 1, new: 2 } },
            Frame::Put { id, key, offset },
            Frame::Get { id, key, offset, length: 5 },
            Frame::Data { id },
            Frame::CheckKey { id, key },
            Frame::Reply { id, old: Some(4) },
            Frame::Reply { id, old: None },
            Frame::ProgressOnly,
            Frame::Close { failure: Failure::TooLong, id: Some(3) },
            Frame::Close { failure: Failure::Flushed, id: None },
        ] {
            assert_eq!(Frame::from_bytes(&frame.to_bytes()), Ok(frame));
        }
    }

    #[test]
    fn frames_with_another_secret_are_ignored() {
        let frame = Frame::CheckKey { id: 1, key: 2 };
        let progress = Progress { arrived: 3, freed: 2, received: 1 };
        let bytes = encode_frame(77, progress, frame);
        assert_eq!(decode_frame(77, &bytes), Some(Ok((progress, frame))));
        assert_eq!(decode_frame(78, &bytes), None);
        let mut bad = bytes;
        bad[8 + Progress::ENCODED] = 9;
        assert_eq!(decode_frame(77, &bad), Some(Err(Failure::ProtocolError)));
    }

    #[test]
    fn invalid_bytes_are_refused() {
        let good = Frame::Reply { id: 3, old: Some(2) }.to_bytes();
        for (at, value) in [(0, 1), (1, 0), (1, 18), (2, 1), (4, 1), (40, 1), (47, 1)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(Frame::from_bytes(&bad), Err(Failure::ProtocolError), "{at}");
        }
        let mut bye = Frame::Close { failure: Failure::TooLong, id: None }.to_bytes();
        bye[4] = 200;
        assert_eq!(Frame::from_bytes(&bye), Err(Failure::ProtocolError));
    }
}
