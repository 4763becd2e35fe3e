//! The header of messages on lanes: 32 bytes, up to three words more for some kinds, then
//! the payload of a fragment. The most frequent header is the shortest: with the framing of a ring it fills one cache line.

use super::bytes::Reader;

/// The header of a message. Messages with a sequence number take effect once and in order,
/// on whichever lane and however often they arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) struct Header {
    /// The sequence number in its class, from 0; the lower bits. Credits have none.
    pub(in crate::link) sequence: u32,
    /// The number of slots freed by the sender on this lane so far, by class.
    pub(in crate::link) freed: [u32; 2],
    /// The number of messages taken by the sender's caller so far.
    pub(in crate::link) taken: u32,
    pub(in crate::link) body: Body,
}

/// The content of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum Body {
    /// A fragment of a message of the caller, which is `total` bytes long; this fragment starts at `offset`.
    Fragment { total: u64, offset: u64, imm: Option<u32> },
    /// The immediate data of a write of `length` bytes, which is placed.
    WriteImm { length: u64, imm: u32 },
    /// Requests an atomic operation on eight bytes.
    Atomic { request: u32, region: u64, offset: u64, op: AtomicOp },
    /// The answer: the old value, or `None` if the access is denied.
    OldValue { request: u32, old: Option<u64> },
    /// Replaces a message of an abandoned operation.
    Void,
    /// Only reports freed slots and taken messages.
    Credit,
}

/// An atomic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum AtomicOp {
    Add(u64),
    Swap { expect: u64, new: u64 },
}

/// Two classes of messages, so that neither blocks the other: messages that wait for the caller's receives, and internal messages
/// of the link (atomic operations, their answers, credits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum MessageClass {
    Caller = 0,
    Internal = 1,
}

impl Body {
    pub(in crate::link) fn class(&self) -> MessageClass {
        match self {
            Body::Fragment { .. } | Body::WriteImm { .. } | Body::Void => MessageClass::Caller,
            Body::Atomic { .. } | Body::OldValue { .. } | Body::Credit => MessageClass::Internal,
        }
    }
}

impl Header {
    /// The shortest header in bytes, and the longest.
    pub(in crate::link) const MIN_BYTES: usize = 32;
    pub(in crate::link) const MAX_BYTES: usize = 56;
    pub(in crate::link) const VERSION: u8 = 2;

    /// The header's bytes, and its length.
    pub(in crate::link) fn to_bytes(self) -> ([u8; Self::MAX_BYTES], usize) {
        let (kind, number, words) = match self.body {
            Body::Fragment { total, offset: 0, imm } => (FIRST_FRAGMENT, imm, [total, 0, 0, 0]),
            Body::Fragment { total, offset, imm } => (LATER_FRAGMENT, imm, [total, offset, 0, 0]),
            Body::WriteImm { length, imm } => (WRITE_IMM, Some(imm), [length, 0, 0, 0]),
            Body::Atomic { request, region, offset, op } => match op {
                AtomicOp::Add(add) => (ADD, Some(request), [region, offset, add, 0]),
                AtomicOp::Swap { expect, new } => {
                    (SWAP, Some(request), [region, offset, expect, new])
                }
            },
            Body::OldValue { request, old: Some(old) } => (OLD, Some(request), [old, 0, 0, 0]),
            Body::OldValue { request, old: None } => (DENIED, Some(request), [0; 4]),
            Body::Credit => (CREDIT, None, [0; 4]),
            Body::Void => (VOID, None, [0; 4]),
        };
        let mut bytes = [0; Self::MAX_BYTES];
        bytes[..3].copy_from_slice(&[Self::VERSION, kind, u8::from(number.is_some())]);
        let [messages, internal] = self.freed;
        let fields = [number.unwrap_or(0), self.sequence, messages, internal, self.taken];
        for (field, to) in fields.into_iter().zip(bytes[4..24].as_chunks_mut().0) {
            *to = field.to_le_bytes();
        }
        for (word, to) in words.into_iter().zip(bytes[24..].as_chunks_mut().0) {
            *to = word.to_le_bytes();
        }
        (bytes, Self::length(kind))
    }

    /// The header of a message, and its own length; `None`: not a valid message.
    #[inline]
    pub(in crate::link) fn of_message(bytes: &[u8]) -> Option<(Self, usize)> {
        if let Some(first) = bytes.first_chunk() {
            return Self::parse(first, bytes.len());
        }
        let mut first = [0; Self::MAX_BYTES];
        first[..bytes.len()].copy_from_slice(bytes);
        Self::parse(&first, bytes.len())
    }

    /// The header of a message of `length` bytes, and its own length; `None`: not a valid message.
    /// `bytes` are the first bytes of the message, padded with zeros.
    pub(in crate::link) fn parse(
        bytes: &[u8; Self::MAX_BYTES],
        length: usize,
    ) -> Option<(Self, usize)> {
        let mut reader = Reader::new(bytes);
        let [version, kind, has_number, zero] = reader.array()?;
        let (number, sequence) = (reader.u32()?, reader.u32()?);
        let (freed, taken) = ([reader.u32()?, reader.u32()?], reader.u32()?);
        let [first, second, third, fourth] =
            [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?];
        let own = Self::length(kind);
        let payload = length.checked_sub(own)? as u64;
        let imm = (has_number == 1).then_some(number);
        let atomic = |op| Some(Body::Atomic { request: imm?, region: first, offset: second, op });
        // Every fragment has at least one byte of the message and none beyond its end; an empty message has one empty fragment.
        let fits = |offset| payload <= first - offset && (payload > 0 || first == 0);
        let body = match kind {
            FIRST_FRAGMENT if fits(0) => Body::Fragment { total: first, offset: 0, imm },
            LATER_FRAGMENT if 0 < second && second < first && fits(second) => {
                Body::Fragment { total: first, offset: second, imm }
            }
            WRITE_IMM => Body::WriteImm { length: first, imm: imm? },
            ADD => atomic(AtomicOp::Add(third))?,
            SWAP => atomic(AtomicOp::Swap { expect: third, new: fourth })?,
            OLD => Body::OldValue { request: imm?, old: Some(first) },
            DENIED if first == 0 => Body::OldValue { request: imm?, old: None },
            CREDIT if first == 0 && sequence == 0 => Body::Credit,
            VOID if first == 0 => Body::Void,
            _ => return None,
        };
        let has_payload = matches!(body, Body::Fragment { .. });
        let may_number = !matches!(body, Body::Credit | Body::Void);
        let flags = version == Self::VERSION
            && zero == 0
            && (has_number == 0 && number == 0 || has_number == 1 && may_number);
        let right = flags && (has_payload || payload == 0);
        right.then_some((Header { sequence, freed, taken, body }, own))
    }

    /// The length of the header by kind.
    fn length(kind: u8) -> usize {
        match kind {
            LATER_FRAGMENT => Self::MIN_BYTES + 8,
            ADD => Self::MIN_BYTES + 16,
            SWAP => Self::MIN_BYTES + 24,
            _ => Self::MIN_BYTES,
        }
    }
}

const FIRST_FRAGMENT: u8 = 1;
const WRITE_IMM: u8 = 2;
const ADD: u8 = 3;
const SWAP: u8 = 4;
const OLD: u8 = 5;
const DENIED: u8 = 6;
const CREDIT: u8 = 7;
const VOID: u8 = 8;
/// A fragment other than the first.
const LATER_FRAGMENT: u8 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Header> {
        [
            Body::Fragment { total: u64::MAX, offset: 3, imm: None },
            Body::Fragment { total: 1, offset: 0, imm: Some(0) },
            Body::Fragment { total: 0, offset: 0, imm: None },
            Body::WriteImm { length: 9, imm: u32::MAX },
            Body::Atomic { request: 1, region: 2, offset: 3, op: AtomicOp::Add(4) },
            Body::Atomic {
                request: 1,
                region: 2,
                offset: 3,
                op: AtomicOp::Swap { expect: 5, new: 6 },
            },
            Body::OldValue { request: 8, old: Some(0) },
            Body::OldValue { request: 8, old: None },
            Body::Void,
            Body::Credit,
        ]
        .map(|body| {
            let sequence = if body == Body::Credit { 0 } else { 77 };
            Header { sequence, freed: [1, u32::MAX], taken: 3, body }
        })
        .to_vec()
    }

    /// A valid payload length for this header.
    fn payload(header: &Header) -> usize {
        matches!(header.body, Body::Fragment { total: 1.., .. }).into()
    }

    #[test]
    fn headers_survive_encoding() {
        for header in examples() {
            let (bytes, own) = header.to_bytes();
            assert_eq!(Header::parse(&bytes, own + payload(&header)), Some((header, own)));
        }
    }

    #[test]
    fn invalid_bytes_are_refused() {
        for header in examples() {
            let (bytes, own) = header.to_bytes();
            let length = own + payload(&header);
            for (at, value) in [(0, 1), (1, 0), (1, 10), (2, 7), (3, 1)] {
                let mut bytes = bytes;
                bytes[at] = value;
                assert_eq!(Header::parse(&bytes, length), None, "{header:?} with {value} at {at}");
            }
            assert_eq!(Header::parse(&bytes, own - 1), None, "{header:?} cut short");
            let max_payload =
                if let Body::Fragment { total: 2.., .. } = header.body { 2 } else { 1 };
            if max_payload == 1 {
                assert_eq!(Header::parse(&bytes, length + 1), None, "{header:?} with a tail");
            }
            if payload(&header) > 0 {
                assert_eq!(Header::parse(&bytes, own), None, "{header:?} without its bytes");
            }
        }
        let (mut unused, length) =
            Header { sequence: 0, freed: [0; 2], taken: 0, body: Body::Credit }.to_bytes();
        unused[24] = 1;
        assert_eq!(Header::parse(&unused, length), None, "an unused field that is not zero");
        let body = Body::Fragment { total: 9, offset: 9, imm: None };
        let (beyond, length) = Header { sequence: 0, freed: [0; 2], taken: 0, body }.to_bytes();
        assert_eq!(Header::parse(&beyond, length + 1), None, "a fragment beyond the end");
        let body = Body::Fragment { total: 9, offset: 1, imm: None };
        let (mut first, length) = Header { sequence: 0, freed: [0; 2], taken: 0, body }.to_bytes();
        first[32] = 0;
        assert_eq!(Header::parse(&first, length + 1), None, "a later fragment with offset 0");
    }
}
