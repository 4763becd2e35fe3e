//! When a call is retried, and for how long.

use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};

/// The deadline of a call. The clock is read only when a call takes long.
#[derive(Debug)]
pub(crate) struct Deadline {
    limit: Duration,
    at: Option<Instant>,
}

/// Decides whether a call is retried.
#[derive(Debug)]
pub(crate) struct Retry {
    /// Whether the call changes nothing, so that it may be repeated.
    repeatable: bool,
    lost_connections: u32,
    pauses: Pauses,
}

/// Pauses between attempts: exponential backoff up to a limit.
#[derive(Debug)]
pub(crate) struct Pauses(Duration);

impl Deadline {
    pub(crate) fn new(limit: Duration) -> Self {
        Deadline { limit, at: None }
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// The time of the deadline, counted from the first call of this or [`Deadline::remaining`].
    pub(crate) fn at(&mut self) -> Instant {
        self.at_from(Instant::now())
    }

    fn at_from(&mut self, now: Instant) -> Instant {
        *self.at.get_or_insert(now + self.limit)
    }

    /// The remaining time.
    pub(crate) fn remaining(&mut self) -> Duration {
        let now = Instant::now();
        self.at_from(now).saturating_duration_since(now)
    }

    /// Restarts the deadline for the next answer.
    #[inline]
    pub(crate) fn renew(&mut self) {
        self.at = None;
    }
}

impl Retry {
    pub(crate) fn new(repeatable: bool) -> Self {
        Retry { repeatable, lost_connections: 0, pauses: Pauses::new() }
    }

    /// The pause before the next attempt; `None`: do not retry.
    pub(crate) fn after(
        &mut self,
        error: &Error,
        now: Instant,
        deadline: &mut Deadline,
    ) -> Option<Duration> {
        let pause = match error.kind() {
            // The store did nothing.
            ErrorKind::Overloaded => self.pauses.next(),
            // A read handle is closed with its connection; reading restarts on the next one.
            ErrorKind::Unavailable
                if self.repeatable && self.lost_connections < MAX_LOST_CONNECTIONS =>
            {
                self.lost_connections += 1;
                Duration::ZERO
            }
            _ => return None,
        };
        (now + pause < deadline.at_from(now)).then_some(pause)
    }
}

impl Pauses {
    pub(crate) fn new() -> Self {
        Pauses(FIRST_PAUSE)
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(MAX_PAUSE);
        pause
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// How often a call is repeated if the connection is lost each time.
const MAX_LOST_CONNECTIONS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ErrorKind) -> Error {
        Error::new(kind, "")
    }

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn overload_is_retried_with_growing_pauses_until_the_deadline() {
        let (begun, mut deadline) = (Instant::now(), Deadline::new(LIMIT));
        let (mut retry, mut now, mut pauses) = (Retry::new(false), begun, Vec::new());
        while let Some(pause) = retry.after(&error(ErrorKind::Overloaded), now, &mut deadline) {
            now += pause;
            pauses.push(pause.as_millis());
        }
        assert_eq!(pauses[..8], [20, 40, 80, 160, 320, 640, 1280, 2000]);
        let waited = now - begun;
        assert!(waited < LIMIT && waited > LIMIT - MAX_PAUSE, "{waited:?}");
    }

    #[test]
    fn a_read_is_repeated_when_the_connection_was_lost_and_a_write_is_not() {
        let (now, mut deadline) = (Instant::now(), Deadline::new(LIMIT));
        let mut lost =
            |retry: &mut Retry| retry.after(&error(ErrorKind::Unavailable), now, &mut deadline);
        let mut read = Retry::new(true);
        for _ in 0..MAX_LOST_CONNECTIONS {
            assert_eq!(lost(&mut read), Some(Duration::ZERO));
        }
        assert_eq!(lost(&mut read), None, "too many lost connections");
        assert_eq!(lost(&mut Retry::new(false)), None);
    }

    #[test]
    fn nothing_is_repeated_after_the_deadline() {
        let (now, mut deadline) = (Instant::now(), Deadline::new(LIMIT));
        let mut read = Retry::new(true);
        assert!(read.after(&error(ErrorKind::Unavailable), now, &mut deadline).is_some());
        assert!(read.after(&error(ErrorKind::Unavailable), now + LIMIT, &mut deadline).is_none());
        deadline.renew();
        assert!(read.after(&error(ErrorKind::Unavailable), now + LIMIT, &mut deadline).is_some());
    }

    #[test]
    fn other_errors_are_not_retried() {
        let (now, mut deadline) = (Instant::now(), Deadline::new(LIMIT));
        for kind in [
            ErrorKind::Unknown,
            ErrorKind::TimedOut,
            ErrorKind::Condition(None),
            ErrorKind::Full,
            ErrorKind::TooLong,
            ErrorKind::Denied,
            ErrorKind::Misuse,
            ErrorKind::ClientLimit,
            ErrorKind::RateLimited,
            ErrorKind::Damaged,
            ErrorKind::ProtocolError,
        ] {
            assert_eq!(Retry::new(true).after(&error(kind), now, &mut deadline), None, "{kind:?}");
        }
    }
}
