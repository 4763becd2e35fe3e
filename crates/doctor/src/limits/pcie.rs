//! Reads of memory over PCIe.

/// Requests of fewer bytes take more of the link than data does: what cards come with.
pub const MIN_READ_REQUEST: u32 = 512;

/// The size to set for throughput: a card that fetches memory in small pieces does not fill a fast link.
pub const READ_REQUEST: u32 = 4096;
