//! Conversions between a status and the error of one item among several.

use tonic::Status;

use crate::NotMet;
use crate::v1::ItemError;

impl From<Status> for ItemError {
    fn from(status: Status) -> Self {
        ItemError {
            code: status.code() as u32,
            message: status.message().to_owned(),
            current_version: NotMet::of(&status).map(|not_met| not_met.current.unwrap_or(0)),
        }
    }
}

/// The status that a separate call would have got.
impl From<ItemError> for Status {
    fn from(error: ItemError) -> Self {
        let code = i32::try_from(error.code).map_or(tonic::Code::Unknown, tonic::Code::from);
        let mut status = Status::new(code, error.message);
        if let Some(version) = error.current_version {
            status.metadata_mut().insert(crate::VERSION_METADATA, version.into());
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn an_item_is_refused_as_a_call_would_be() {
        let not_met = NotMet { current: Some(7) };
        let error = ItemError::from(Status::from(not_met));
        assert_eq!((error.code, error.current_version), (9, Some(7)));
        assert_eq!(NotMet::of(&Status::from(error)), Some(not_met));
        let error = ItemError::from(Status::from(Error::KeyEmpty));
        assert_eq!((error.code, error.current_version), (3, None));
        assert!(error.message.contains("1 to 4096 bytes"), "{}", error.message);
    }
}
