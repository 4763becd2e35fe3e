//! Rails, and the making of their lanes.

pub(super) mod connector;
pub(super) mod rail;
