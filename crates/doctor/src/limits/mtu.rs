//! The MTU of net devices with RoCE.

/// Bytes of data in the largest packet of RoCE.
pub const LARGEST_PACKET: u32 = 4096;

/// The smallest MTU that leaves room for [`LARGEST_PACKET`] and RoCE's headers.
pub const MIN: u32 = 4200;

/// The MTU to set: switches that pass more than 1500 bytes pass this.
pub const WANTED: u32 = 9000;

/// Whether packets of [`LARGEST_PACKET`] fit.
pub fn is_enough(mtu: u32) -> bool {
    mtu >= MIN
}
