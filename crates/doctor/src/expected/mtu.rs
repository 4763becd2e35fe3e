//! The MTU of net devices with RoCE.

/// The largest RoCE MTU: payload bytes of a packet.
pub const LARGEST_PACKET: u32 = 4096;

/// The smallest MTU of a net device with space for [`LARGEST_PACKET`] and RoCE's headers.
pub const MIN: u32 = 4200;

/// The MTU to set: switches that allow more than 1500 bytes allow this.
pub const WANTED: u32 = 9000;

/// Whether packets of [`LARGEST_PACKET`] fit.
pub fn is_enough(mtu: u32) -> bool {
    mtu >= MIN
}
