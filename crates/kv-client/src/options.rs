//! Options of a put.

use std::time::Duration;

use kv_proto::Condition;

/// Options of a put. The default replaces the key's value, if it has one, and the new value does not expire.
///
/// ```
/// use std::time::Duration;
/// use kv_client::{Condition, PutOptions};
///
/// let lock = PutOptions::default()
///     .with_condition(Condition::IfAbsent)
///     .with_ttl(Duration::from_secs(10));
/// assert_eq!(lock.ttl, Some(Duration::from_secs(10)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PutOptions {
    /// The time to live, in whole milliseconds.
    ///
    /// Default: `None`, until it is deleted or evicted. After this time the key does not exist, also for
    /// [`Condition::IfAbsent`].
    pub ttl: Option<Duration>,
    /// The condition for the value to be stored.
    ///
    /// Default: none. If it is not met, the call fails with [`ErrorKind::Condition`](crate::ErrorKind::Condition) and
    /// changes nothing.
    pub condition: Condition,
}

impl PutOptions {
    /// With a time to live, see [`PutOptions::ttl`].
    #[must_use]
    pub fn with_ttl(self, ttl: impl Into<Option<Duration>>) -> Self {
        PutOptions { ttl: ttl.into(), ..self }
    }

    /// With a condition, see [`PutOptions::condition`].
    #[must_use]
    pub fn with_condition(self, condition: Condition) -> Self {
        PutOptions { condition, ..self }
    }

    /// The time to live, for requests.
    pub(crate) fn ttl_ms(&self) -> Option<u64> {
        self.ttl.map(|ttl| ttl.as_millis().min(u128::from(u64::MAX / 4)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_live_is_in_whole_milliseconds_and_never_overflows() {
        let ttl_ms = |ttl| PutOptions::default().with_ttl(ttl).ttl_ms();
        assert_eq!(PutOptions::default().ttl_ms(), None);
        assert_eq!(ttl_ms(Duration::from_micros(1500)), Some(1));
        assert_eq!(ttl_ms(Duration::MAX), Some(u64::MAX / 4));
    }
}
