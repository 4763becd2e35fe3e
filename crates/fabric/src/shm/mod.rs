//! Shared memory.
#[derive(Debug)]
pub(crate) struct PeerMapping;
