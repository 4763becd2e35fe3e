//! Time to live and condition of a put.

use crate::limits::MAX_TTL_MS;
use crate::v1::{PutOptions, put_options};
use crate::{Condition, Error};

/// Valid [`PutOptions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PutTerms {
    /// Milliseconds until the key expires; `None`: never.
    pub ttl_ms: Option<u64>,
    /// The condition.
    pub condition: Condition,
}

impl TryFrom<Option<PutOptions>> for PutTerms {
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
        Ok(PutTerms { ttl_ms, condition })
    }
}

impl From<PutTerms> for PutOptions {
    fn from(terms: PutTerms) -> Self {
        let condition = match terms.condition {
            Condition::Always => None,
            Condition::IfAbsent => Some(put_options::Condition::IfAbsent(true)),
            Condition::IfVersion(version) => Some(put_options::Condition::IfVersion(version)),
        };
        PutOptions { ttl_ms: terms.ttl_ms, condition }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(
        ttl_ms: Option<u64>,
        condition: Option<put_options::Condition>,
    ) -> Result<PutTerms, Error> {
        PutTerms::try_from(Some(PutOptions { ttl_ms, condition }))
    }

    #[test]
    fn no_options_are_the_plain_put() {
        assert_eq!(PutTerms::try_from(None), Ok(PutTerms::default()));
        let not_absent = Some(put_options::Condition::IfAbsent(false));
        assert_eq!(checked(None, not_absent), Ok(PutTerms::default()));
    }

    #[test]
    fn terms_are_the_same_after_a_round_trip() {
        for condition in [Condition::Always, Condition::IfAbsent, Condition::IfVersion(7)] {
            for ttl_ms in [None, Some(1), Some(MAX_TTL_MS)] {
                let terms = PutTerms { ttl_ms, condition };
                assert_eq!(PutTerms::try_from(Some(terms.into())), Ok(terms));
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
