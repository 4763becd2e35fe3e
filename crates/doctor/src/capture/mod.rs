//! Capturing an RDMA device's packets: by which way, what that way sees, and the file they go to.
//!
//! Hardware moves packets past the kernel, so that what captures elsewhere sees nothing. Which way there is
//! depends on the device: [`choose`] takes a port, [`Method::of`] says how its packets can be had, or why they
//! cannot. [`Parser`] reads a capture piece by piece, [`Writer`] writes one, [`Kind`] tells packets apart.
//! Sockets and programs are the caller's.

mod kind;
mod pcap;
mod way;

pub use kind::{Counts, Kind};
pub use pcap::{Header, Packet, Parser, Writer, damaged};
pub use way::{Method, Place, Refusal, Tools, choose};
