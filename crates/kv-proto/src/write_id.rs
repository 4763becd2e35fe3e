//! Identifies a write, so that it can be retried.

/// A write's number in a session. A write that is repeated with the same id is executed once and answered each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteId {
    /// The id from `OpenSession`.
    pub session: [u8; SESSION_ID_BYTES],
    /// From 1 upwards.
    pub sequence: u64,
}

/// The length of a session's id.
pub const SESSION_ID_BYTES: usize = 16;
