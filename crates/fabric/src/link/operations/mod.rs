//! Operations of the caller's, and what lanes have of them.

pub(super) mod operation;
pub(super) mod part;
