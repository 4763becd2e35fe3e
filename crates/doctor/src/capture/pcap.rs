//! Capture files in pcap format: a header of 24 bytes, then packets with a record header of 16 bytes each.
//!
//! The parser accepts either byte order, micro- and nanoseconds. The writer uses nanoseconds and little endian.

use std::io::{self, Write};

/// The header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The link type of its packets: 1 is Ethernet.
    pub link_type: u32,
    /// Whether times are in nanoseconds; else in microseconds.
    pub nanoseconds: bool,
    /// Whether numbers are big endian.
    big_endian: bool,
}

/// One packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Seconds since 1970.
    pub seconds: u32,
    /// And nanoseconds.
    pub nanoseconds: u32,
    /// Its length on the wire.
    pub length: u32,
    /// The captured bytes.
    pub bytes: Vec<u8>,
}

/// Parses a capture incrementally.
#[derive(Debug, Default)]
pub struct Parser {
    header: Option<Header>,
    buffer: Vec<u8>,
}

/// Writes a capture.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    written: u64,
}

impl Parser {
    /// The header of the file, once it was received.
    pub fn header(&self) -> Option<Header> {
        self.header
    }

    /// Adds bytes, and returns the packets that are complete.
    pub fn feed(&mut self, piece: &[u8]) -> io::Result<Vec<Packet>> {
        self.buffer.extend_from_slice(piece);
        let mut at = 0;
        let mut packets = Vec::new();
        let header = match self.header {
            Some(header) => header,
            None if self.buffer.len() < HEADER => return Ok(packets),
            None => {
                at = HEADER;
                *self.header.insert(Header::parse(&self.buffer[..HEADER])?)
            }
        };
        while let Some(packet) = header.packet(&self.buffer[at..])? {
            at += RECORD + packet.bytes.len();
            packets.push(packet);
        }
        self.buffer.drain(..at);
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
            _ => return Err(invalid_data("not a pcap capture: unknown magic number")),
        };
        // The upper half has the length of the frame check sequence, which is not used.
        let link_type = number(bytes, 20, big_endian) & 0xffff;
        Ok(Header { link_type, nanoseconds, big_endian })
    }

    /// The packet at the start of these bytes, if it is complete.
    fn packet(self, bytes: &[u8]) -> io::Result<Option<Packet>> {
        if bytes.len() < RECORD {
            return Ok(None);
        }
        let field = |at| number(bytes, at, self.big_endian);
        let kept = field(8) as usize;
        if kept > MAX_PACKET_BYTES {
            return Err(invalid_data("a packet exceeds the maximum length"));
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
    /// Starts a capture of packets of this link type.
    pub fn start(mut to: W, link_type: u32) -> io::Result<Self> {
        let mut header = Vec::with_capacity(HEADER);
        header.extend(NANOSECONDS.to_le_bytes());
        header.extend([2, 0, 4, 0]); // Version 2.4,
        header.extend([0; 8]); // times in UTC,
        header.extend((MAX_PACKET_BYTES as u32).to_le_bytes());
        header.extend(link_type.to_le_bytes());
        to.write_all(&header)?;
        Ok(Writer { to, written: HEADER as u64 })
    }

    /// Writes one packet.
    pub fn write(&mut self, packet: &Packet) -> io::Result<()> {
        let kept =
            u32::try_from(packet.bytes.len()).map_err(|_| invalid_data("a packet is too long"))?;
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

    /// The length of the file with this packet.
    pub fn length_with(&self, packet: &Packet) -> u64 {
        self.written + (RECORD + packet.bytes.len()) as u64
    }

    /// The length of the file.
    pub fn length(&self) -> u64 {
        self.written
    }

    /// Flushes and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

/// The error of an invalid capture.
pub fn invalid_data(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// The caller has checked that there are four bytes.
fn number(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    if big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
}

const HEADER: usize = 24;
const RECORD: usize = 16;
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// The limit of tcpdump and Wireshark.
const MAX_PACKET_BYTES: usize = 262_144;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(length: usize) -> Packet {
        let bytes = (0..length).map(|byte| byte as u8).collect();
        Packet { seconds: 7, nanoseconds: 8, length: length as u32 + 1, bytes }
    }

    fn written(packets: &[Packet]) -> Vec<u8> {
        let mut writer = Writer::start(Vec::new(), 1).expect("starts");
        for packet in packets {
            writer.write(packet).expect("writes");
        }
        let length = writer.length();
        let bytes = writer.finish().expect("finishes");
        assert_eq!(bytes.len() as u64, length);
        bytes
    }

    #[test]
    fn a_written_capture_is_parsed_in_pieces_of_any_size() {
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
    fn microseconds_and_big_endian_are_parsed() {
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
    fn an_invalid_capture_is_refused() {
        assert!(Parser::default().feed(&[0; 24]).is_err());
        let mut endless = written(&[packet(4)]);
        endless[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Parser::default().feed(&endless).is_err());
    }
}
