//! The kind of a captured packet.

use serde::Serialize;

/// The kind of a packet, by its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// UDP to port 4791.
    RoceV2,
    /// RoCE's own Ethernet type.
    RoceV1,
    /// TCP, which may carry iWARP.
    Tcp,
    /// InfiniBand, without Ethernet around it.
    InfiniBand,
    /// Anything else.
    Other,
}

/// The number of packets, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PacketCounts {
    /// All packets.
    pub packets: u64,
    /// RoCE v2.
    pub roce_v2: u64,
    /// RoCE v1.
    pub roce_v1: u64,
    /// TCP.
    pub tcp: u64,
    /// InfiniBand.
    pub infiniband: u64,
}

impl PacketKind {
    /// The kind of a packet of this link type; truncated packets are `Other`.
    pub fn new(link_type: u32, bytes: &[u8]) -> PacketKind {
        match link_type {
            ETHERNET => ethernet(bytes).unwrap_or(PacketKind::Other),
            INFINIBAND | ERF => PacketKind::InfiniBand,
            _ => PacketKind::Other,
        }
    }
}

impl PacketCounts {
    /// Counts a packet.
    pub fn add(&mut self, kind: PacketKind) {
        self.packets += 1;
        match kind {
            PacketKind::RoceV2 => self.roce_v2 += 1,
            PacketKind::RoceV1 => self.roce_v1 += 1,
            PacketKind::Tcp => self.tcp += 1,
            PacketKind::InfiniBand => self.infiniband += 1,
            PacketKind::Other => {}
        }
    }

    /// `1532 packets, 1201 of them RoCE v2`.
    pub fn text(&self) -> String {
        let kinds = [
            (self.roce_v2, "RoCE v2"),
            (self.roce_v1, "RoCE v1"),
            (self.tcp, "TCP"),
            (self.infiniband, "InfiniBand"),
        ];
        let mut text = format!("{} packets", self.packets);
        for (at, (count, name)) in kinds.iter().filter(|(count, _)| *count > 0).enumerate() {
            let of = if at == 0 { " of them" } else { "" };
            text.push_str(&format!(", {count}{of} {name}"));
        }
        text
    }
}

fn ethernet(bytes: &[u8]) -> Option<PacketKind> {
    let mut at = 12;
    let mut ether_type = be16(bytes, at)?;
    // A VLAN tag, and a provider's tag before it.
    while matches!(ether_type, 0x8100 | 0x88a8) && at < 20 {
        at += 4;
        ether_type = be16(bytes, at)?;
    }
    let rest = bytes.get(at + 2..)?;
    match ether_type {
        0x0800 => ipv4(rest),
        0x86dd => ipv6(rest),
        0x8915 => Some(PacketKind::RoceV1),
        _ => None,
    }
}

fn ipv4(bytes: &[u8]) -> Option<PacketKind> {
    let length = usize::from(bytes.first()? & 15) * 4;
    // Only the first fragment has the ports.
    let first = be16(bytes, 6)? & 0x1fff == 0;
    if first { transport(*bytes.get(9)?, bytes.get(length..)?) } else { None }
}

fn ipv6(bytes: &[u8]) -> Option<PacketKind> {
    transport(*bytes.get(6)?, bytes.get(40..)?)
}

fn transport(protocol: u8, bytes: &[u8]) -> Option<PacketKind> {
    match protocol {
        6 => Some(PacketKind::Tcp),
        17 if be16(bytes, 2)? == ROCE_PORT => Some(PacketKind::RoceV2),
        _ => None,
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// The UDP port of RoCE v2.
const ROCE_PORT: u16 = 4791;
/// Link types: Ethernet, InfiniBand, and ERF (Endace), in which ibdump writes InfiniBand.
const ETHERNET: u32 = 1;
const INFINIBAND: u32 = 247;
const ERF: u32 = 197;

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet frame: addresses, then these bytes.
    fn frame(rest: &[u8]) -> Vec<u8> {
        [&[0; 12], rest].concat()
    }

    fn ip(protocol: u8, destination: u16) -> Vec<u8> {
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        packet[9] = protocol;
        packet[22..24].copy_from_slice(&destination.to_be_bytes());
        packet
    }

    fn kind(frame: &[u8]) -> PacketKind {
        PacketKind::new(ETHERNET, frame)
    }

    #[test]
    fn packets_are_classified_by_their_headers() {
        let v4 = frame(&[&[8, 0], &ip(17, 4791)[..]].concat());
        assert_eq!(kind(&v4), PacketKind::RoceV2);
        let tagged = frame(&[&[0x81, 0, 0, 5, 8, 0], &ip(17, 4791)[..]].concat());
        assert_eq!(kind(&tagged), PacketKind::RoceV2);
        assert_eq!(kind(&frame(&[&[8, 0], &ip(17, 53)[..]].concat())), PacketKind::Other);
        assert_eq!(kind(&frame(&[&[8, 0], &ip(6, 445)[..]].concat())), PacketKind::Tcp);
        assert_eq!(kind(&frame(&[0x89, 0x15, 1])), PacketKind::RoceV1);
        let mut v6 = vec![0x86, 0xdd];
        v6.extend([0; 40]);
        v6[2 + 6] = 17;
        v6.extend([0, 1, 0x12, 0xb7]);
        assert_eq!(kind(&frame(&v6)), PacketKind::RoceV2);
        assert_eq!(PacketKind::new(247, &[]), PacketKind::InfiniBand);
    }

    #[test]
    fn later_fragments_have_no_ports() {
        let mut packet = ip(17, 4791);
        packet[7] = 8;
        assert_eq!(kind(&frame(&[&[8, 0], &packet[..]].concat())), PacketKind::Other);
    }

    #[test]
    fn truncated_packets_are_other() {
        let whole = frame(&[&[0x81, 0, 0, 5, 8, 0], &ip(17, 4791)[..]].concat());
        for length in 0..whole.len() - 4 {
            assert_eq!(kind(&whole[..length]), PacketKind::Other, "{length}");
        }
    }

    #[test]
    fn counts_as_text() {
        let mut counts = PacketCounts::default();
        assert_eq!(counts.text(), "0 packets");
        for kind in [PacketKind::RoceV2, PacketKind::Other, PacketKind::RoceV2, PacketKind::Tcp] {
            counts.add(kind);
        }
        assert_eq!(counts.text(), "4 packets, 2 of them RoCE v2, 1 TCP");
    }
}
