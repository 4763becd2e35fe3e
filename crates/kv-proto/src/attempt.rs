//! Identifies a write, so that it can be retried.

use crate::{Error, v1};

/// A write's number in a session. A repeated attempt is executed once and answered each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// The id from `OpenSession`.
    pub session: [u8; SESSION_ID_BYTES],
    /// From 1 upwards.
    pub sequence: u64,
}

/// The length of a session's id.
pub const SESSION_ID_BYTES: usize = 16;

impl TryFrom<v1::Attempt> for Attempt {
    type Error = Error;

    fn try_from(attempt: v1::Attempt) -> Result<Self, Error> {
        let v1::Attempt { session, sequence } = attempt;
        let session = session[..].try_into().map_err(|_| Error::SessionId(session.len()))?;
        if sequence == 0 {
            return Err(Error::SequenceZero);
        }
        Ok(Attempt { session, sequence })
    }
}

impl From<Attempt> for v1::Attempt {
    fn from(attempt: Attempt) -> Self {
        let Attempt { session, sequence } = attempt;
        v1::Attempt { session: session.to_vec().into(), sequence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_the_same_after_a_round_trip() {
        let attempt = Attempt { session: *b"0123456789abcdef", sequence: 1 };
        assert_eq!(Attempt::try_from(v1::Attempt::from(attempt)), Ok(attempt));
    }

    #[test]
    fn an_attempt_without_session_or_number_is_refused() {
        let attempt = |session: &'static [u8], sequence| {
            Attempt::try_from(v1::Attempt { session: session.into(), sequence })
        };
        assert_eq!(attempt(b"", 1), Err(Error::SessionId(0)));
        assert_eq!(attempt(b"0123456789abcdef0", 1), Err(Error::SessionId(17)));
        assert_eq!(attempt(b"0123456789abcdef", 0), Err(Error::SequenceZero));
    }
}
