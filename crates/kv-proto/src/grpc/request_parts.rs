//! Checked parts of gRPC's requests: spans, options of puts, ids of writes.

use crate::limits::MAX_TTL_MS;
use crate::v1::{self, GetRequest, PutOptions, ReadRequest, put_options};
use crate::{Condition, Error, Span, ValidPutOptions, WriteId};

impl From<&GetRequest> for Span {
    fn from(request: &GetRequest) -> Self {
        Span { offset: request.offset, length: request.length }
    }
}

impl From<&ReadRequest> for Span {
    fn from(request: &ReadRequest) -> Self {
        Span { offset: request.offset, length: request.length }
    }
}

impl TryFrom<Option<PutOptions>> for ValidPutOptions {
    type Error = Error;

    fn try_from(options: Option<PutOptions>) -> Result<Self, Error> {
        let PutOptions { ttl_ms, condition } = options.unwrap_or_default();
        if let Some(ttl) = ttl_ms.filter(|ttl| !(1..=MAX_TTL_MS).contains(ttl)) {
            return Err(Error::Ttl(ttl));
        }
        let condition = match condition {
            None | Some(put_options::Condition::IfAbsent(false)) => Condition::Always,
            Some(put_options::Condition::IfAbsent(true)) => Condition::IfAbsent,
            Some(put_options::Condition::IfVersion(version)) => {
                Condition::of_version(Some(version))?
            }
        };
        Ok(ValidPutOptions { ttl_ms, condition })
    }
}

impl From<ValidPutOptions> for PutOptions {
    fn from(valid_put_options: ValidPutOptions) -> Self {
        let condition = match valid_put_options.condition {
            Condition::Always => None,
            Condition::IfAbsent => Some(put_options::Condition::IfAbsent(true)),
            Condition::IfVersion(version) => Some(put_options::Condition::IfVersion(version)),
        };
        PutOptions { ttl_ms: valid_put_options.ttl_ms, condition }
    }
}

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

    fn checked(
        ttl_ms: Option<u64>,
        condition: Option<put_options::Condition>,
    ) -> Result<ValidPutOptions, Error> {
        ValidPutOptions::try_from(Some(PutOptions { ttl_ms, condition }))
    }

    #[test]
    fn no_options_are_the_plain_put() {
        assert_eq!(ValidPutOptions::try_from(None), Ok(ValidPutOptions::default()));
        let not_absent = Some(put_options::Condition::IfAbsent(false));
        assert_eq!(checked(None, not_absent), Ok(ValidPutOptions::default()));
    }

    #[test]
    fn terms_are_the_same_after_a_round_trip() {
        for condition in [Condition::Always, Condition::IfAbsent, Condition::IfVersion(7)] {
            for ttl_ms in [None, Some(1), Some(MAX_TTL_MS)] {
                let valid_put_options = ValidPutOptions { ttl_ms, condition };
                assert_eq!(
                    ValidPutOptions::try_from(Some(valid_put_options.into())),
                    Ok(valid_put_options)
                );
            }
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        assert_eq!(checked(Some(0), None), Err(Error::Ttl(0)));
        assert_eq!(checked(Some(MAX_TTL_MS + 1), None), Err(Error::Ttl(MAX_TTL_MS + 1)));
        let zero = Some(put_options::Condition::IfVersion(0));
        assert_eq!(checked(None, zero), Err(Error::VersionZero));
    }

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
