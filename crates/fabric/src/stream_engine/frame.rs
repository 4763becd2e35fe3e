//! The header of a frame: 24 bytes, and 40 more if it refers to the peer's memory.
//!
//! ```text
//!  0 kind   1 flags   2 zero (2)   4 number (4)   8 length (8)   16 ack (4)   20 credit (4)
//! 24 key (16)   40 offset (8)   48 first (8)   56 second (8)
//! ```
//! Numbers are little-endian. Every frame has `ack` and `credit`: the number of the peer's writes
//! and messages executed on this stream, and the number of receives posted on this lane, since the start.

use crate::op::Failure;

/// A header, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Whether `number` is immediate data; in a `Fail`, whether the first frame
    /// not acknowledged failed.
    pub(crate) flag: bool,
    /// Immediate data, or the id of a request.
    pub(crate) number: u32,
    /// The number of bytes that follow, are requested, or were written; in an `Old` the old value,
    /// in a `Fail` the failure's code.
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
    /// Bytes for a region; with immediate data, consumes a receive.
    Write = 1,
    /// Bytes for a receive.
    Send = 2,
    /// Immediate data of a write whose bytes took another path; consumes a receive.
    Imm = 3,
    /// Requests bytes of a region.
    Read = 4,
    /// The requested bytes.
    Data = 5,
    /// Requests to add `first`.
    Add = 6,
    /// Requests to replace `second` by `first`.
    Swap = 7,
    /// The old value.
    Old = 8,
    /// A request, or the first frame not acknowledged, failed; the lane is dead.
    Fail = 9,
    /// Only `ack` and `credit`.
    AckOnly = 10,
    /// Bytes for the owner of the lane.
    Packet = 11,
}

/// The result of decoding.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// A header, and its length.
    Header(Header, usize),
    /// More bytes are needed.
    Incomplete,
    /// Not a valid header.
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
            10 => Kind::AckOnly,
            11 => Kind::Packet,
            _ => return None,
        })
    }

    /// The length of the header of such a frame.
    #[inline]
    pub(crate) fn header_length(self) -> usize {
        match self {
            Kind::Write | Kind::Read | Kind::Add | Kind::Swap => Header::MAX_BYTES,
            _ => SHORT_BYTES,
        }
    }
}

impl Header {
    pub(crate) const MAX_BYTES: usize = 64;

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

    /// The number of bytes after the header.
    #[inline]
    pub(crate) fn payload_length(&self) -> u64 {
        match self.kind {
            Kind::Write | Kind::Send | Kind::Data | Kind::Packet => self.length,
            _ => 0,
        }
    }

    /// The length of the whole frame.
    #[inline]
    pub(crate) fn frame_length(&self) -> usize {
        self.kind.header_length() + self.payload_length() as usize
    }

    /// Whether `ack` counts it.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self.kind, Kind::Write | Kind::Send | Kind::Imm | Kind::Packet)
    }

    #[inline]
    pub(crate) fn encode(&self, bytes: &mut [u8; Self::MAX_BYTES]) {
        bytes[0] = self.kind as u8;
        bytes[1] = u8::from(self.flag);
        bytes[2..4].fill(0);
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.ack.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.credit.to_le_bytes());
        if self.kind.header_length() == Self::MAX_BYTES {
            bytes[24..40].copy_from_slice(&self.key.to_le_bytes());
            bytes[40..48].copy_from_slice(&self.offset.to_le_bytes());
            bytes[48..56].copy_from_slice(&self.first.to_le_bytes());
            bytes[56..64].copy_from_slice(&self.second.to_le_bytes());
        }
    }

    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Decoded {
        let Some((short, rest)) = bytes.split_first_chunk::<SHORT_BYTES>() else {
            return Decoded::Incomplete;
        };
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
        if kind.header_length() == Self::MAX_BYTES {
            let Some((long, _)) = rest.split_first_chunk::<{ Self::MAX_BYTES - SHORT_BYTES }>()
            else {
                return Decoded::Incomplete;
            };
            header.key = u128::from_le_bytes(chunk(long, 0));
            header.offset = u64::from_le_bytes(chunk(long, 16));
            header.first = u64::from_le_bytes(chunk(long, 24));
            header.second = u64::from_le_bytes(chunk(long, 32));
        }
        Decoded::Header(header, kind.header_length())
    }
}

/// The header of a packet, which has the fields that all headers have.
pub(crate) struct PacketHeader {
    pub(crate) length: u64,
    pub(crate) ack: u32,
    pub(crate) credit: u32,
}

impl PacketHeader {
    pub(crate) const BYTES: usize = SHORT_BYTES;

    /// `None`: the bytes begin with another frame, or with an incomplete header.
    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<SHORT_BYTES>()?;
        // Its kind, no flag, and two bytes that are always zero; its number.
        let plain = chunk(bytes, 0) == [Kind::Packet as u8, 0, 0, 0, 0, 0, 0, 0];
        plain.then(|| PacketHeader {
            length: u64::from_le_bytes(chunk(bytes, 8)),
            ack: u32::from_le_bytes(chunk(bytes, 16)),
            credit: u32::from_le_bytes(chunk(bytes, 20)),
        })
    }
}

const SHORT_BYTES: usize = 24;

#[inline]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("within the header")
}

/// The code of a failure in a `Fail` frame.
pub(crate) fn failure_code(failure: Failure) -> u64 {
    match failure {
        Failure::Access => 1,
        Failure::TooLong => 2,
        _ => 0,
    }
}

pub(crate) fn failure_from_code(number: u64) -> Failure {
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
    fn a_decoded_header_is_encoded_unchanged() {
        for kind in 1..=11 {
            let mut bytes = [0x5a; Header::MAX_BYTES];
            bytes[0] = kind;
            bytes[1] = kind % 2;
            bytes[2..4].fill(0);
            let Decoded::Header(header, length) = Header::decode(&bytes) else {
                panic!("a header")
            };
            let mut again = [0xff; Header::MAX_BYTES];
            header.encode(&mut again);
            assert_eq!(again[..length], bytes[..length]);
            assert_eq!(Header::decode(&bytes[..length - 1]), Decoded::Incomplete);
        }
    }

    #[test]
    fn an_invalid_header_is_a_protocol_error() {
        for (at, value) in [(0, 0), (0, 12), (1, 2), (2, 1), (3, 1)] {
            let mut bytes = [0; Header::MAX_BYTES];
            bytes[0] = 1;
            bytes[at] = value;
            assert_eq!(Header::decode(&bytes), Decoded::ProtocolError);
        }
    }
}
