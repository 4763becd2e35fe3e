//! What the two ends of a link send each other, as bytes.

pub(super) mod bytes;
pub(super) mod control;
pub(super) mod header;
pub(super) mod hello;
