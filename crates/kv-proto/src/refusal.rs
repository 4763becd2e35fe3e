//! The status of one item among several.

use tonic::Status;

use crate::NotMet;
use crate::v1::Refusal;

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Refusal {
            code: status.code() as u32,
            message: status.message().to_owned(),
            current_version: NotMet::of(&status).map(|not_met| not_met.current.unwrap_or(0)),
        }
    }
}

/// The status that a separate call would have got.
impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let code = i32::try_from(refusal.code).map_or(tonic::Code::Unknown, tonic::Code::from);
        let mut status = Status::new(code, refusal.message);
        if let Some(version) = refusal.current_version {
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
        let refusal = Refusal::from(Status::from(not_met));
        assert_eq!((refusal.code, refusal.current_version), (9, Some(7)));
        assert_eq!(NotMet::of(&Status::from(refusal)), Some(not_met));
        let refusal = Refusal::from(Status::from(Error::KeyEmpty));
        assert_eq!((refusal.code, refusal.current_version), (3, None));
        assert!(refusal.message.contains("1 to 4096 bytes"), "{}", refusal.message);
    }
}
