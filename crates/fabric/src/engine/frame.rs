//! The header of a frame: 64 bytes, the same for all kinds.
//!
//! ```text
//!  0 kind   1 flags   2 zero (2)   4 number (4)   8 length (8)   16 key (16)
//! 32 offset (8)   40 first (8)   48 second (8)   56 ack (4)   60 credit (4)
//! ```
//! Numbers are little-endian. `ack` and `credit` ride on every frame: how many of the peer's writes
//! and messages were executed on this stream, and how many receives were ever posted on this lane.

use crate::op::Failure;

/// A header, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Whether `number` is one that the application gave.
    pub(crate) has_imm: bool,
    /// The application's number, or the asker's name for a question.
    pub(crate) number: u32,
    /// How many bytes follow, or are asked for, or were written.
    pub(crate) length: u64,
    pub(crate) key: u128,
    pub(crate) offset: u64,
    pub(crate) first: u64,
    pub(crate) second: u64,
    pub(crate) ack: u32,
    pub(crate) credit: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes for a region; with a number, takes a receive.
    Write = 1,
    /// Bytes for a receive.
    Send = 2,
    /// A number alone, of a write that went another way; takes a receive.
    Imm = 3,
    /// Asks for bytes of a region.
    Read = 4,
    /// The bytes asked for.
    Data = 5,
    /// Asks to add.
    Add = 6,
    /// Asks to compare and swap.
    Swap = 7,
    /// What was there before.
    Old = 8,
    /// A question, or with `first` = 1 the first frame not acknowledged, failed; the lane is dead.
    Fail = 9,
    /// Nothing but `ack` and `credit`.
    Note = 10,
}

impl Header {
    pub(crate) const SIZE: usize = 64;

    pub(crate) fn new(kind: Kind) -> Self {
        Header {
            kind,
            has_imm: false,
            number: 0,
            length: 0,
            key: 0,
            offset: 0,
            first: 0,
            second: 0,
            ack: 0,
            credit: 0,
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

    /// Whether the receiver acknowledges it by counting.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self.kind, Kind::Write | Kind::Send | Kind::Imm)
    }

    #[inline]
    pub(crate) fn encode(&self, bytes: &mut [u8; Self::SIZE]) {
        bytes[0] = self.kind as u8;
        bytes[1] = u8::from(self.has_imm);
        bytes[2..4].fill(0);
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.key.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.offset.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.first.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.second.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.ack.to_le_bytes());
        bytes[60..64].copy_from_slice(&self.credit.to_le_bytes());
    }

    /// `None` for what is no header.
    #[inline]
    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let kind = match bytes[0] {
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
        };
        if bytes[1] > 1 || bytes[2] != 0 || bytes[3] != 0 {
            return None;
        }
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        Some(Header {
            kind,
            has_imm: bytes[1] == 1,
            number: word(4),
            length: long(8),
            key: u128::from_le_bytes(bytes[16..32].try_into().expect("sixteen")),
            offset: long(32),
            first: long(40),
            second: long(48),
            ack: word(56),
            credit: word(60),
        })
    }
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
            let mut bytes = [0x5a; Header::SIZE];
            bytes[0] = kind;
            bytes[1] = kind % 2;
            bytes[2..4].fill(0);
            let header = Header::decode(&bytes).expect("a header");
            let mut again = [0xff; Header::SIZE];
            header.encode(&mut again);
            assert_eq!(again, bytes);
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for (at, value) in [(0, 0), (0, 11), (1, 2), (2, 1), (3, 1)] {
            let mut bytes = [0; Header::SIZE];
            bytes[0] = 1;
            bytes[at] = value;
            assert_eq!(Header::decode(&bytes), None);
        }
    }
}
