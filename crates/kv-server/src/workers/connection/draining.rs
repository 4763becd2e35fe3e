//! The batches that a store still serves while it drains.

use kv_proto::wire::{Batch, Request};

use crate::engine::session::Session;

/// Whether a batch only continues earlier requests, or repeats a write that was started before: if that were refused as
/// not executed, the client would execute it again elsewhere.
pub(super) fn is_continuation(batch: &Batch<'_>, session: &Session) -> bool {
    let is_repeated = |request: Result<Request<'_>, _>| {
        let sequence = request.ok().and_then(|request| request.sequence());
        sequence.is_some_and(|sequence| session.has_write(sequence))
    };
    let continues = |request: Result<Request<'_>, _>| match request {
        Ok(Request::Get { .. } | Request::Put { .. } | Request::Begin { .. }) => false,
        Ok(Request::Delete { .. } | Request::Stat { .. } | Request::List { .. }) => false,
        Ok(Request::Read { .. } | Request::Close { .. }) => true,
        Ok(Request::Chunk { .. } | Request::Commit { .. }) => true,
        // Serving it reports the error.
        Err(_) => true,
    };
    batch.clone().all(continues) || batch.clone().any(is_repeated)
}

#[cfg(test)]
mod tests {
    use kv_proto::Condition;
    use kv_proto::wire::{Answer, BatchHead, Message, Status};

    use super::*;
    use crate::engine::session::{Sessions, WriteStart};

    #[test]
    fn repeated_writes_and_open_handles_are_served() {
        let (session, _) = Sessions::new(4, 1 << 20).enter(None, "me").unwrap();
        let delete =
            |sequence| Request::Delete { key: b"k", condition: Condition::Always, sequence };
        let continues = |requests: &[Request<'_>]| {
            let count = requests.len() as u16;
            let head = BatchHead { in_place: false, count, tag: 1, at: 0, capacity: 4096 };
            let mut message = head.to_bytes().to_vec();
            requests.iter().for_each(|request| request.put(&mut message));
            let Ok(Message::Batch(batch)) = Message::parse(&message) else {
                panic!("a batch");
            };
            is_continuation(&batch, &session)
        };
        assert_eq!(session.start_write(5), WriteStart::New);
        assert!(continues(&[delete(5)]), "in flight");
        session.finish_write(5, Answer::new(Status::Ok));
        assert!(continues(&[delete(5)]) && continues(&[delete(6), delete(5)]), "done");
        assert!(!continues(&[delete(6)]), "new");
        assert!(continues(&[Request::Close { handle: 1 }]));
        assert!(!continues(&[Request::Close { handle: 1 }, delete(6)]));
    }
}
