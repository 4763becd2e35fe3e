//! Time to live and condition of a put.

use crate::limits::MAX_TTL_MS;
use crate::v1::{PutOptions, put_options};
use crate::{Condition, Error};

/// Valid [`PutOptions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ValidPutOptions {
    /// Milliseconds until the key expires; `None`: never.
    pub ttl_ms: Option<u64>,
    /// The condition.
    pub condition: Condition,
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
}
