//! Time to live and condition of a put.

use crate::Condition;

/// Valid options of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ValidPutOptions {
    /// Milliseconds until the key expires; `None`: never.
    pub ttl_ms: Option<u64>,
    /// The condition.
    pub condition: Condition,
}
