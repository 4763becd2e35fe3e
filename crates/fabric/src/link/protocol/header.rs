//! What stands before every message on a lane: 32 bytes, up to three words more where they are needed, then
//! the payload of a part. What is sent most is the shortest: with what a ring adds it fills one cache line.

use super::bytes::Reader;

/// One message of a link. Those that carry a number in their stream take effect once, in order,
/// whatever lane brings them and however often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) struct Header {
    /// Its place in its stream, counted from 0: the lower bits. Credits have none.
    pub(in crate::link) sequence: u32,
    /// How many slots the sender has freed on this lane so far, by stream.
    pub(in crate::link) freed: [u32; 2],
    /// How many messages its caller has taken so far.
    pub(in crate::link) taken: u32,
    pub(in crate::link) body: Body,
}

/// What a message means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum Body {
    /// A part of a message of the caller's: `total` bytes long, this one from `offset` on.
    Part { total: u64, offset: u64, imm: Option<u32> },
    /// A write of so many bytes is placed, and this is its immediate data.
    Notice { length: u64, imm: u32 },
    /// Change eight bytes, and answer under this number.
    Change { request: u32, region: u64, offset: u64, change: Change },
    /// What was there before; `None` if it is not allowed.
    Old { request: u32, old: Option<u64> },
    /// Stands for a message that will never be: the one that it was part of is over.
    Void,
    /// Nothing but the slots freed.
    Credit,
}

/// How an atomic operation changes a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum Change {
    Add(u64),
    Swap { expect: u64, new: u64 },
}

/// Two streams, so that neither waits for the other: what waits for receives of the caller's, and what
/// links send to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum Stream {
    Messages = 0,
    Control = 1,
}

impl Body {
    pub(in crate::link) fn stream(&self) -> Stream {
        match self {
            Body::Part { .. } | Body::Notice { .. } | Body::Void => Stream::Messages,
            Body::Change { .. } | Body::Old { .. } | Body::Credit => Stream::Control,
        }
    }
}

impl Header {
    /// The shortest, and the longest.
    pub(in crate::link) const MIN: usize = 32;
    pub(in crate::link) const LONGEST: usize = 56;
    pub(in crate::link) const VERSION: u8 = 2;

    /// The bytes, and how many of them there are.
    pub(in crate::link) fn to_bytes(self) -> ([u8; Self::LONGEST], usize) {
        let (kind, number, words) = match self.body {
            Body::Part { total, offset: 0, imm } => (PART, imm, [total, 0, 0, 0]),
            Body::Part { total, offset, imm } => (REST, imm, [total, offset, 0, 0]),
            Body::Notice { length, imm } => (NOTICE, Some(imm), [length, 0, 0, 0]),
            Body::Change { request, region, offset, change } => match change {
                Change::Add(add) => (ADD, Some(request), [region, offset, add, 0]),
                Change::Swap { expect, new } => {
                    (SWAP, Some(request), [region, offset, expect, new])
                }
            },
            Body::Old { request, old: Some(old) } => (OLD, Some(request), [old, 0, 0, 0]),
            Body::Old { request, old: None } => (DENIED, Some(request), [0; 4]),
            Body::Credit => (CREDIT, None, [0; 4]),
            Body::Void => (VOID, None, [0; 4]),
        };
        let mut bytes = [0; Self::LONGEST];
        bytes[..3].copy_from_slice(&[Self::VERSION, kind, u8::from(number.is_some())]);
        let [messages, notes] = self.freed;
        let fields = [number.unwrap_or(0), self.sequence, messages, notes, self.taken];
        for (field, to) in fields.into_iter().zip(bytes[4..24].as_chunks_mut().0) {
            *to = field.to_le_bytes();
        }
        for (word, to) in words.into_iter().zip(bytes[24..].as_chunks_mut().0) {
            *to = word.to_le_bytes();
        }
        (bytes, Self::length(kind))
    }

    /// The header of a message of `length` bytes, and how many of them it takes; `None`: no message of ours.
    /// `bytes` has those that are there, and zeroes after them.
    pub(in crate::link) fn parse(
        bytes: &[u8; Self::LONGEST],
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
        let change =
            |change| Some(Body::Change { request: imm?, region: first, offset: second, change });
        // Every part has some bytes of the message and none beside, but for a message without any.
        let fits = |offset| payload <= first - offset && (payload > 0 || first == 0);
        let body = match kind {
            PART if fits(0) => Body::Part { total: first, offset: 0, imm },
            REST if 0 < second && second < first && fits(second) => {
                Body::Part { total: first, offset: second, imm }
            }
            NOTICE => Body::Notice { length: first, imm: imm? },
            ADD => change(Change::Add(third))?,
            SWAP => change(Change::Swap { expect: third, new: fourth })?,
            OLD => Body::Old { request: imm?, old: Some(first) },
            DENIED if first == 0 => Body::Old { request: imm?, old: None },
            CREDIT if first == 0 && sequence == 0 => Body::Credit,
            VOID if first == 0 => Body::Void,
            _ => return None,
        };
        let has_payload = matches!(body, Body::Part { .. });
        let may_number = !matches!(body, Body::Credit | Body::Void);
        let flags = version == Self::VERSION
            && zero == 0
            && (has_number == 0 && number == 0 || has_number == 1 && may_number);
        let right = flags && (has_payload || payload == 0);
        right.then_some((Header { sequence, freed, taken, body }, own))
    }

    /// How long the header of such a message is.
    fn length(kind: u8) -> usize {
        match kind {
            REST => Self::MIN + 8,
            ADD => Self::MIN + 16,
            SWAP => Self::MIN + 24,
            _ => Self::MIN,
        }
    }
}

const PART: u8 = 1;
const NOTICE: u8 = 2;
const ADD: u8 = 3;
const SWAP: u8 = 4;
const OLD: u8 = 5;
const DENIED: u8 = 6;
const CREDIT: u8 = 7;
const VOID: u8 = 8;
/// A part that is not the first.
const REST: u8 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Header> {
        [
            Body::Part { total: u64::MAX, offset: 3, imm: None },
            Body::Part { total: 1, offset: 0, imm: Some(0) },
            Body::Part { total: 0, offset: 0, imm: None },
            Body::Notice { length: 9, imm: u32::MAX },
            Body::Change { request: 1, region: 2, offset: 3, change: Change::Add(4) },
            Body::Change {
                request: 1,
                region: 2,
                offset: 3,
                change: Change::Swap { expect: 5, new: 6 },
            },
            Body::Old { request: 8, old: Some(0) },
            Body::Old { request: 8, old: None },
            Body::Void,
            Body::Credit,
        ]
        .map(|body| {
            let sequence = if body == Body::Credit { 0 } else { 77 };
            Header { sequence, freed: [1, u32::MAX], taken: 3, body }
        })
        .to_vec()
    }

    /// How long such a message may be.
    fn payload(header: &Header) -> usize {
        matches!(header.body, Body::Part { total: 1.., .. }).into()
    }

    #[test]
    fn headers_come_back_as_they_were() {
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
            let most = if let Body::Part { total: 2.., .. } = header.body { 2 } else { 1 };
            if most == 1 {
                assert_eq!(Header::parse(&bytes, length + 1), None, "{header:?} with a tail");
            }
            if payload(&header) > 0 {
                assert_eq!(Header::parse(&bytes, own), None, "{header:?} without its bytes");
            }
        }
        let (mut unused, length) =
            Header { sequence: 0, freed: [0; 2], taken: 0, body: Body::Credit }.to_bytes();
        unused[24] = 1;
        assert_eq!(Header::parse(&unused, length), None, "a field it does not use");
        let body = Body::Part { total: 9, offset: 9, imm: None };
        let (beyond, length) = Header { sequence: 0, freed: [0; 2], taken: 0, body }.to_bytes();
        assert_eq!(Header::parse(&beyond, length + 1), None, "a part beyond the end");
        let body = Body::Part { total: 9, offset: 1, imm: None };
        let (mut first, length) = Header { sequence: 0, freed: [0; 2], taken: 0, body }.to_bytes();
        first[32] = 0;
        assert_eq!(Header::parse(&first, length + 1), None, "a first part that says it is none");
    }
}
