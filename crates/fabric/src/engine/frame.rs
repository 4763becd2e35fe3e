//! The header of a frame: 24 bytes, and 40 more where the peer's memory is named.
//!
//! ```text
//!  0 kind   1 flags   2 zero (2)   4 number (4)   8 length (8)   16 ack (4)   20 credit (4)
//! 24 key (16)   40 offset (8)   48 first (8)   56 second (8)
//! ```
//! Numbers are little-endian. `ack` and `credit` ride on every frame: how many of the peer's writes
//! and messages were executed on this stream, and how many receives were ever posted on this lane.

use crate::op::Failure;

/// A header, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Whether `number` is immediate data of the application's; of a `Fail`, whether it means the first frame
    /// not acknowledged.
    pub(crate) flag: bool,
    /// Immediate data, or the asker's name for a question.
    pub(crate) number: u32,
    /// How many bytes follow, or are asked for, or were written; of an `Old` the number that was there,
    /// of a `Fail` the reason.
    pub(crate) length: u64,
    pub(crate) ack: u32,
    pub(crate) credit: u32,
    pub(crate) key: u128,
    pub(crate) offset: u64,
    pub(crate) first: u64,
    pub(crate) second: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes for a region; with immediate data, takes a receive.
    Write = 1,
    /// Bytes for a receive.
    Send = 2,
    /// Immediate data alone, of a write that went by another path; takes a receive.
    Imm = 3,
    /// Asks for bytes of a region.
    Read = 4,
    /// The bytes asked for.
    Data = 5,
    /// Asks to add `first`.
    Add = 6,
    /// Asks to put `first` where `second` is.
    Swap = 7,
    /// What was there before.
    Old = 8,
    /// A question, or the first frame not acknowledged, failed; the lane is dead.
    Fail = 9,
    /// Nothing but `ack` and `credit`.
    Note = 10,
}

/// What bytes are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// A header, and how many bytes it took.
    Header(Header, usize),
    /// The beginning of one, perhaps.
    Short,
    /// No header.
    ProtocolError,
}

impl Kind {
    fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Kind::Write,
            2 => Kind::Send,
            3 => Kind::Imm,
            4 => Kind::Read,
            5 => Kind::Data,
            6 => Kind::Add,
            7 => Kind::Swap,
            8 => Kind::Old,
            9 => Kind::Fail,
            10 => Kind::Note,
            _ => return None,
        })
    }

    /// How long the header of such a frame is.
    #[inline]
    pub(crate) fn header(self) -> usize {
        match self {
            Kind::Write | Kind::Read | Kind::Add | Kind::Swap => Header::LONGEST,
            _ => SHORT,
        }
    }
}

impl Header {
    pub(crate) const LONGEST: usize = 64;

    pub(crate) fn new(kind: Kind) -> Self {
        Header {
            kind,
            flag: false,
            number: 0,
            length: 0,
            ack: 0,
            credit: 0,
            key: 0,
            offset: 0,
            first: 0,
            second: 0,
        }
    }

    /// How many bytes follow the header.
    #[inline]
    pub(crate) fn payload(&self) -> u64 {
        match self.kind {
            Kind::Write | Kind::Send | Kind::Data => self.length,
            _ => 0,
        }
    }

    /// How many bytes the frame has in all.
    #[inline]
    pub(crate) fn whole(&self) -> usize {
        self.kind.header() + self.payload() as usize
    }

    /// Whether the receiver acknowledges it by counting.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self.kind, Kind::Write | Kind::Send | Kind::Imm)
    }

    #[inline]
    pub(crate) fn encode(&self, bytes: &mut [u8; Self::LONGEST]) {
        bytes[0] = self.kind as u8;
        bytes[1] = u8::from(self.flag);
        bytes[2..4].fill(0);
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.ack.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.credit.to_le_bytes());
        if self.kind.header() == Self::LONGEST {
            bytes[24..40].copy_from_slice(&self.key.to_le_bytes());
            bytes[40..48].copy_from_slice(&self.offset.to_le_bytes());
            bytes[48..56].copy_from_slice(&self.first.to_le_bytes());
            bytes[56..64].copy_from_slice(&self.second.to_le_bytes());
        }
    }

    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Decoded {
        let Some((short, rest)) = bytes.split_first_chunk::<SHORT>() else { return Decoded::Short };
        let kind = Kind::from_number(short[0]);
        let Some(kind) = kind.filter(|_| short[1] <= 1 && short[2] == 0 && short[3] == 0) else {
            return Decoded::ProtocolError;
        };
        let mut header = Header {
            flag: short[1] == 1,
            number: u32::from_le_bytes(chunk(short, 4)),
            length: u64::from_le_bytes(chunk(short, 8)),
            ack: u32::from_le_bytes(chunk(short, 16)),
            credit: u32::from_le_bytes(chunk(short, 20)),
            ..Header::new(kind)
        };
        if kind.header() == Self::LONGEST {
            let Some((long, _)) = rest.split_first_chunk::<{ Self::LONGEST - SHORT }>() else {
                return Decoded::Short;
            };
            header.key = u128::from_le_bytes(chunk(long, 0));
            header.offset = u64::from_le_bytes(chunk(long, 16));
            header.first = u64::from_le_bytes(chunk(long, 24));
            header.second = u64::from_le_bytes(chunk(long, 32));
        }
        Decoded::Header(header, kind.header())
    }
}

const SHORT: usize = 24;

#[inline]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("within the header")
}

/// The reasons that travel, as numbers.
pub(crate) fn reason_number(failure: Failure) -> u64 {
    match failure {
        Failure::Access => 1,
        Failure::TooLong => 2,
        _ => 0,
    }
}

pub(crate) fn reason(number: u64) -> Failure {
    match number {
        1 => Failure::Access,
        2 => Failure::TooLong,
        _ => Failure::PeerGone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_as_they_were() {
        for kind in 1..=10 {
            let mut bytes = [0x5a; Header::LONGEST];
            bytes[0] = kind;
            bytes[1] = kind % 2;
            bytes[2..4].fill(0);
            let Decoded::Header(header, length) = Header::decode(&bytes) else {
                panic!("a header")
            };
            let mut again = [0xff; Header::LONGEST];
            header.encode(&mut again);
            assert_eq!(again[..length], bytes[..length]);
            assert_eq!(Header::decode(&bytes[..length - 1]), Decoded::Short);
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for (at, value) in [(0, 0), (0, 11), (1, 2), (2, 1), (3, 1)] {
            let mut bytes = [0; Header::LONGEST];
            bytes[0] = 1;
            bytes[at] = value;
            assert_eq!(Header::decode(&bytes), Decoded::ProtocolError);
        }
    }
}
