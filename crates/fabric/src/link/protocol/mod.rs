//! The encoding of messages between the two ends of a link.

pub(super) mod bytes;
pub(super) mod control;
pub(super) mod header;
pub(super) mod hello;
