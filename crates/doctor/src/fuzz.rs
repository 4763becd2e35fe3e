//! Fuzz targets: each takes any bytes, and panics only on a bug.

/// A capture parsed in two pieces has the same packets as in one, even if damaged.
pub fn capture(bytes: &[u8]) {
    use crate::capture::{Packet, PacketKind, Parser};
    let read = |pieces: &[&[u8]]| -> std::io::Result<Vec<Packet>> {
        let mut parser = Parser::default();
        let mut packets = Vec::new();
        for piece in pieces {
            packets.extend(parser.feed(piece)?);
        }
        let link_type = parser.header().map_or(0, |header| header.link_type);
        for packet in &packets {
            let _ = PacketKind::new(link_type, &packet.bytes);
        }
        Ok(packets)
    };
    let (first, second) = bytes.split_at(bytes.len() / 2);
    assert_eq!(read(&[bytes]).ok(), read(&[first, second]).ok());
}

/// Arbitrary log lines.
pub fn error_lines(bytes: &[u8]) {
    crate::explain::parse(&String::from_utf8_lossy(bytes));
}
