//! Capturing packets of an RDMA device: the method, what it covers, and the capture file.
//!
//! Packets of hardware devices bypass the kernel, so that ordinary captures see nothing. The method
//! depends on the device: [`choose`] selects a port, [`Method::new`] returns how its packets can be captured, or why they
//! cannot. [`Parser`] parses a capture incrementally, [`Writer`] writes one, [`PacketKind`] classifies packets.
//! The caller opens sockets and runs programs.

mod method;
mod packet_kind;
mod pcap;

pub use method::{CapturePort, Method, Refusal, Tools, choose};
pub use packet_kind::{PacketCounts, PacketKind};
pub use pcap::{Header, Packet, Parser, Writer, invalid_data};
