//! Identifies a write, so that it can be retried.

use crate::{Error, v1};

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

impl TryFrom<v1::WriteId> for WriteId {
    type Error = Error;

    fn try_from(write_id: v1::WriteId) -> Result<Self, Error> {
        let v1::WriteId { session, sequence } = write_id;
        let session = session[..].try_into().map_err(|_| Error::SessionId(session.len()))?;
        if sequence == 0 {
            return Err(Error::SequenceZero);
        }
        Ok(WriteId { session, sequence })
    }
}

impl From<WriteId> for v1::WriteId {
    fn from(write_id: WriteId) -> Self {
        let WriteId { session, sequence } = write_id;
        v1::WriteId { session: session.to_vec().into(), sequence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_id_is_the_same_after_a_round_trip() {
        let write_id = WriteId { session: *b"0123456789abcdef", sequence: 1 };
        assert_eq!(WriteId::try_from(v1::WriteId::from(write_id)), Ok(write_id));
    }

    #[test]
    fn a_write_id_without_session_or_number_is_refused() {
        let write_id = |session: &'static [u8], sequence| {
            WriteId::try_from(v1::WriteId { session: session.into(), sequence })
        };
        assert_eq!(write_id(b"", 1), Err(Error::SessionId(0)));
        assert_eq!(write_id(b"0123456789abcdef0", 1), Err(Error::SessionId(17)));
        assert_eq!(write_id(b"0123456789abcdef", 0), Err(Error::SequenceZero));
    }
}
