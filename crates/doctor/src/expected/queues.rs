//! Packet queues: rings of net devices, and socket buffers.

use node::queries::Rings;

/// Whether rings are as large as the driver allows: packets that find a ring full are dropped.
pub fn are_largest(rings: Rings) -> bool {
    rings.rx >= rings.rx_max && rings.tx >= rings.tx_max
}

/// The socket buffer size in bytes: 5 ms of a 100 Gb/s link.
pub const SOCKET_BUFFER: u64 = 64 << 20;
