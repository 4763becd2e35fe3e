//! Capturing an RDMA device's packets: the method, what it sees, and the file they are written to.
//!
//! Hardware moves packets past the kernel, so that ordinary captures see nothing. The method
//! depends on the device: [`choose`] takes a port, [`Method::of`] says how its packets can be captured, or why they
//! cannot. [`Parser`] reads a capture piece by piece, [`Writer`] writes one, [`PacketKind`] tells packets apart.
//! Sockets and programs are the caller's.

mod method;
mod packet_kind;
mod pcap;

pub use method::{Method, Place, Refusal, Tools, choose};
pub use packet_kind::{Counts, PacketKind};
pub use pcap::{Header, Packet, Parser, Writer, damaged};
