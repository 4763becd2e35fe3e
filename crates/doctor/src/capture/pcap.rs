//! Capture files as Wireshark reads them: a header of 24 bytes, then packets with 16 bytes before each.
//!
//! A reader takes what other programs write: either byte order, micro- or nanoseconds. We write nanoseconds
//! in the byte order of most machines.

use std::io::{self, Write};

/// What a file says of its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What a packet begins with: 1 is Ethernet.
    pub link_type: u32,
    /// Whether times are in nanoseconds; else in microseconds.
    pub nanoseconds: bool,
    /// Whether numbers have their highest byte first.
    big_endian: bool,
}

/// One packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Seconds since 1970.
    pub seconds: u32,
    /// And nanoseconds.
    pub nanoseconds: u32,
    /// How long it was on the wire.
    pub length: u32,
    /// As much of it as was kept.
    pub bytes: Vec<u8>,
}

/// Reads a capture that comes in pieces.
#[derive(Debug, Default)]
pub struct Parser {
    header: Option<Header>,
    left: Vec<u8>,
}

/// Writes a capture.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    written: u64,
}

impl Parser {
    /// What the file says of its packets, once that much of it has come.
    pub fn header(&self) -> Option<Header> {
        self.header
    }

    /// Takes another piece, and gives the packets that are whole now.
    pub fn feed(&mut self, piece: &[u8]) -> io::Result<Vec<Packet>> {
        self.left.extend_from_slice(piece);
        let mut at = 0;
        let mut packets = Vec::new();
        let header = match self.header {
            Some(header) => header,
            None if self.left.len() < HEADER => return Ok(packets),
            None => {
                at = HEADER;
                *self.header.insert(Header::parse(&self.left[..HEADER])?)
            }
        };
        while let Some(packet) = header.packet(&self.left[at..])? {
            at += RECORD + packet.bytes.len();
            packets.push(packet);
        }
        self.left.drain(..at);
        Ok(packets)
    }
}

impl Header {
    fn parse(bytes: &[u8]) -> io::Result<Header> {
        let magic = number(bytes, 0, false);
        let (nanoseconds, big_endian) = match magic {
            MICROSECONDS => (false, false),
            NANOSECONDS => (true, false),
            _ if magic == MICROSECONDS.swap_bytes() => (false, true),
            _ if magic == NANOSECONDS.swap_bytes() => (true, true),
            _ => return Err(damaged("it does not begin as a capture does")),
        };
        // The upper half is of no matter here: how checksums of frames are kept.
        let link_type = number(bytes, 20, big_endian) & 0xffff;
        Ok(Header { link_type, nanoseconds, big_endian })
    }

    /// The packet that these bytes begin with, if it is whole.
    fn packet(self, bytes: &[u8]) -> io::Result<Option<Packet>> {
        if bytes.len() < RECORD {
            return Ok(None);
        }
        let field = |at| number(bytes, at, self.big_endian);
        let kept = field(8) as usize;
        if kept > LONGEST {
            return Err(damaged("a packet is longer than any"));
        }
        let Some(rest) = bytes.get(RECORD..RECORD + kept) else { return Ok(None) };
        let scale = if self.nanoseconds { 1 } else { 1000 };
        Ok(Some(Packet {
            seconds: field(0),
            nanoseconds: field(4).saturating_mul(scale),
            length: field(12),
            bytes: rest.to_vec(),
        }))
    }
}

impl<W: Write> Writer<W> {
    /// Begins a capture of packets of this link type.
    pub fn begin(mut to: W, link_type: u32) -> io::Result<Self> {
        let mut header = Vec::with_capacity(HEADER);
        header.extend(NANOSECONDS.to_le_bytes());
        header.extend([2, 0, 4, 0]); // Version 2.4,
        header.extend([0; 8]); // times in UTC,
        header.extend((LONGEST as u32).to_le_bytes());
        header.extend(link_type.to_le_bytes());
        to.write_all(&header)?;
        Ok(Writer { to, written: HEADER as u64 })
    }

    /// Writes one packet.
    pub fn write(&mut self, packet: &Packet) -> io::Result<()> {
        let kept =
            u32::try_from(packet.bytes.len()).map_err(|_| damaged("a packet is too long"))?;
        let mut record = [0; RECORD];
        let fields = [packet.seconds, packet.nanoseconds, kept, packet.length];
        for (field, bytes) in fields.iter().zip(record.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        self.to.write_all(&record)?;
        self.to.write_all(&packet.bytes)?;
        self.written += RECORD as u64 + u64::from(kept);
        Ok(())
    }

    /// How long the file would be with this packet.
    pub fn length_with(&self, packet: &Packet) -> u64 {
        self.written + (RECORD + packet.bytes.len()) as u64
    }

    /// How long the file is.
    pub fn length(&self) -> u64 {
        self.written
    }

    /// Writes out what is held back, and gives the file.
    pub fn end(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

/// What is no capture.
pub fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// The caller has seen that there are four bytes.
fn number(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    if big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
}

const HEADER: usize = 24;
const RECORD: usize = 16;
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// What tcpdump and Wireshark take for the longest packet.
const LONGEST: usize = 262_144;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(length: usize) -> Packet {
        let bytes = (0..length).map(|byte| byte as u8).collect();
        Packet { seconds: 7, nanoseconds: 8, length: length as u32 + 1, bytes }
    }

    fn written(packets: &[Packet]) -> Vec<u8> {
        let mut writer = Writer::begin(Vec::new(), 1).expect("begins");
        for packet in packets {
            writer.write(packet).expect("writes");
        }
        let length = writer.length();
        let bytes = writer.end().expect("ends");
        assert_eq!(bytes.len() as u64, length);
        bytes
    }

    #[test]
    fn what_is_written_is_read_in_whatever_pieces() {
        let packets = [packet(0), packet(60), packet(9014)];
        let bytes = written(&packets);
        for size in [1, 7, 16, 100, bytes.len()] {
            let mut parser = Parser::default();
            let pieces = bytes.chunks(size).map(|piece| parser.feed(piece).expect("a capture"));
            let read: Vec<Packet> = pieces.flatten().collect();
            assert_eq!(read, packets, "pieces of {size}");
            assert_eq!(parser.header().map(|header| header.link_type), Some(1));
        }
    }

    #[test]
    fn microseconds_and_the_other_byte_order_are_read() {
        let mut file = Vec::new();
        for number in [MICROSECONDS, 0x0002_0004, 0, 0, 65535, 247, 1, 2, 3, 4] {
            file.extend(number.to_be_bytes());
        }
        file.extend([9, 9, 9]);
        let mut parser = Parser::default();
        let read = parser.feed(&file).expect("a capture");
        let expected = Packet { seconds: 1, nanoseconds: 2000, length: 4, bytes: vec![9, 9, 9] };
        assert_eq!(read, [expected]);
        assert_eq!(parser.header().map(|header| header.link_type), Some(247));
    }

    #[test]
    fn what_is_no_capture_is_refused_and_takes_no_memory() {
        assert!(Parser::default().feed(&[0; 24]).is_err());
        let mut endless = written(&[packet(4)]);
        endless[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Parser::default().feed(&endless).is_err());
    }
}
