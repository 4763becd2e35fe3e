//! The status of gRPC that a refusal becomes, and back.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::{Error, NotMet};

/// The trailing metadata that has the key's version when a condition did not hold: decimal, 0 for none.
pub const VERSION_METADATA: &str = "wirelane-version";

impl Error {
    /// The status code that a caller gets.
    pub fn code(&self) -> Code {
        match self {
            Error::OffsetPastEnd { .. } => Code::OutOfRange,
            _ => Code::InvalidArgument,
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Status::new(error.code(), error.to_string())
    }
}

impl NotMet {
    /// Reads a status that a server has sent.
    pub fn of(status: &Status) -> Option<NotMet> {
        if status.code() != Code::FailedPrecondition {
            return None;
        }
        let version: u64 = status.metadata().get(VERSION_METADATA)?.to_str().ok()?.parse().ok()?;
        Some(NotMet { current: (version != 0).then_some(version) })
    }
}

impl From<NotMet> for Status {
    fn from(not_met: NotMet) -> Self {
        let mut status = Status::failed_precondition(not_met.to_string());
        let version = MetadataValue::from(not_met.current.unwrap_or(0));
        status.metadata_mut().insert(VERSION_METADATA, version);
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_carries_the_current_version() {
        for current in [None, Some(1), Some(u64::MAX)] {
            let status = Status::from(NotMet { current });
            assert_eq!(NotMet::of(&status), Some(NotMet { current }));
        }
        assert_eq!(NotMet::of(&Status::failed_precondition("another server's")), None);
        assert_eq!(NotMet::of(&Status::not_found("")), None);
    }
}
