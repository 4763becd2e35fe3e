//! The PCIe maximum read request size (MaxReadReq).

/// The default of NICs. With smaller requests, headers take a large part of the link.
pub const MIN_READ_REQUEST: u32 = 512;

/// The size to set for throughput: with small requests a NIC does not fill a fast link.
pub const READ_REQUEST: u32 = 4096;
