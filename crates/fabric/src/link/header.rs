//! What stands before every message on a lane: 72 bytes, then the payload of a part.

use super::bytes::Reader;

/// One message of a link. Those that carry a number in their stream take effect once, in order,
/// whatever lane brings them and however often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Its place in its stream; counted from 0. Credits have none.
    pub(super) sequence: u64,
    /// How many slots the sender has freed on this lane so far, by stream.
    pub(super) freed: [u32; 2],
    /// How many letters its caller has taken so far.
    pub(super) taken: u32,
    pub(super) body: Body,
}

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// A part of a message of the caller's: `total` bytes long, this one from `offset` on.
    Part { total: u64, offset: u64, imm: Option<u32> },
    /// A write of so many bytes is placed, and this is its number.
    Notice { length: u64, imm: u32 },
    /// Change eight bytes, and answer under this number.
    Change { request: u64, region: u64, offset: u64, change: Change },
    /// What was there before; `None` if it is not allowed.
    Old { request: u64, old: Option<u64> },
    /// Stands for a message that will never be: the one that it was part of is over.
    Void,
    /// Nothing but the slots freed.
    Credit,
}

/// How an atomic operation changes a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Add(u64),
    Swap { expect: u64, new: u64 },
}

/// Two streams, so that neither waits for the other: what waits for receives of the caller's, and what
/// links say to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Letters = 0,
    Notes = 1,
}

impl Body {
    pub(super) fn stream(&self) -> Stream {
        match self {
            Body::Part { .. } | Body::Notice { .. } | Body::Void => Stream::Letters,
            Body::Change { .. } | Body::Old { .. } | Body::Credit => Stream::Notes,
        }
    }
}

impl Header {
    pub(super) const LENGTH: usize = 72;
    const VERSION: u8 = 1;

    pub(super) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let (kind, imm, words) = match self.body {
            Body::Part { total, offset, imm } => (1, imm, [total, offset, 0, 0, 0]),
            Body::Notice { length, imm } => (2, Some(imm), [length, 0, 0, 0, 0]),
            Body::Change { request, region, offset, change } => match change {
                Change::Add(add) => (3, None, [request, region, offset, add, 0]),
                Change::Swap { expect, new } => (4, None, [request, region, offset, expect, new]),
            },
            Body::Old { request, old: Some(old) } => (5, None, [request, old, 0, 0, 0]),
            Body::Old { request, old: None } => (6, None, [request, 0, 0, 0, 0]),
            Body::Credit => (7, None, [0; 5]),
            Body::Void => (8, None, [0; 5]),
        };
        let mut bytes = [0; Self::LENGTH];
        bytes[..3].copy_from_slice(&[Self::VERSION, kind, u8::from(imm.is_some())]);
        bytes[4..8].copy_from_slice(&imm.unwrap_or(0).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        for (at, freed) in self.freed.into_iter().enumerate() {
            bytes[16 + at * 4..20 + at * 4].copy_from_slice(&freed.to_le_bytes());
        }
        bytes[24..28].copy_from_slice(&self.taken.to_le_bytes());
        for (at, word) in words.into_iter().enumerate() {
            bytes[32 + at * 8..40 + at * 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// `None`: no message of ours.
    pub(super) fn parse(bytes: &[u8; Self::LENGTH]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let [version, kind, has_imm, zero] = reader.array()?;
        let imm = reader.u32()?;
        let sequence = reader.u64()?;
        let freed = [reader.u32()?, reader.u32()?];
        let (taken, _unused) = (reader.u32()?, reader.u32()?);
        let mut words = [0; 5];
        for word in &mut words {
            *word = reader.u64()?;
        }
        let [first, second, third, fourth, fifth] = words;
        let change =
            |change| Body::Change { request: first, region: second, offset: third, change };
        let body = match kind {
            1 => Body::Part { total: first, offset: second, imm: (has_imm == 1).then_some(imm) },
            2 => Body::Notice { length: first, imm },
            3 => change(Change::Add(fourth)),
            4 => change(Change::Swap { expect: fourth, new: fifth }),
            5 => Body::Old { request: first, old: Some(second) },
            6 => Body::Old { request: first, old: None },
            7 => Body::Credit,
            8 => Body::Void,
            _ => return None,
        };
        let header = Header { sequence, freed, taken, body };
        // What would not be written so was not written by us: versions, flags, and fields unused.
        (version == Self::VERSION && zero == 0 && header.to_bytes() == *bytes).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Header> {
        [
            Body::Part { total: u64::MAX, offset: 3, imm: None },
            Body::Part { total: 1, offset: 0, imm: Some(0) },
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
        .map(|body| Header { sequence: 77, freed: [1, u32::MAX], taken: 3, body })
        .to_vec()
    }

    #[test]
    fn headers_come_back_as_they_were() {
        for header in examples() {
            assert_eq!(Header::parse(&header.to_bytes()), Some(header));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for header in examples() {
            for (at, value) in [(0, 2), (1, 0), (1, 9), (2, 7), (3, 1), (28, 1)] {
                let mut bytes = header.to_bytes();
                bytes[at] = value;
                assert_eq!(Header::parse(&bytes), None, "{header:?} with {value} at {at}");
            }
        }
        let mut unused =
            Header { sequence: 0, freed: [0; 2], taken: 0, body: Body::Credit }.to_bytes();
        unused[40] = 1;
        assert_eq!(Header::parse(&unused), None, "a field it does not use");
    }
}
