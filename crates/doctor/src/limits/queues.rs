//! Queues of packets: rings of net devices, and socket buffers.

use node::answers::Rings;

/// Whether rings are as large as the driver allows: a burst that finds a ring full is dropped.
pub fn are_largest(rings: Rings) -> bool {
    rings.rx >= rings.rx_max && rings.tx >= rings.tx_max
}

/// The bytes that a socket should be able to hold: what a link of 100 Gb/s carries in 5 ms.
pub const SOCKET_BUFFER: u64 = 64 << 20;
