//! Which batches a store that is shutting down still serves.

use kv_proto::wire::{Batch, Request};

use crate::engine::session::Session;

/// Whether a batch only goes on with what was begun before, or asks again for a write that was: to say that nothing was
/// done would have it done once more elsewhere.
pub(super) fn goes_on(batch: &Batch<'_>, session: &Session) -> bool {
    let asks_again = |request: Result<Request<'_>, _>| {
        let sequence = request.ok().and_then(|request| request.sequence());
        sequence.is_some_and(|sequence| session.has(sequence))
    };
    let known = |request: Result<Request<'_>, _>| match request {
        Ok(Request::Get { .. } | Request::Put { .. } | Request::Begin { .. }) => false,
        Ok(Request::Delete { .. } | Request::Stat { .. } | Request::List { .. }) => false,
        Ok(Request::Read { .. } | Request::Close { .. }) => true,
        Ok(Request::Piece { .. } | Request::Commit { .. }) => true,
        // It is found out when it is served.
        Err(_) => true,
    };
    batch.clone().all(known) || batch.clone().any(asks_again)
}

#[cfg(test)]
mod tests {
    use kv_proto::Condition;
    use kv_proto::wire::{Answer, BatchHead, Message, Status};

    use super::*;
    use crate::engine::session::{Sessions, Turn};

    #[test]
    fn a_store_that_ends_answers_for_what_it_has_done() {
        let (session, _) = Sessions::default().enter(None, "me").unwrap();
        let delete =
            |sequence| Request::Delete { key: b"k", condition: Condition::Always, sequence };
        let goes_on = |requests: &[Request<'_>]| {
            let count = requests.len() as u16;
            let head = BatchHead { in_place: false, count, tag: 1, at: 0, capacity: 4096 };
            let mut message = head.to_bytes().to_vec();
            requests.iter().for_each(|request| request.put(&mut message));
            let Ok(Message::Batch(batch)) = Message::parse(&message) else {
                panic!("a batch");
            };
            super::goes_on(&batch, &session)
        };
        assert_eq!(session.turn(5), Turn::Now);
        assert!(goes_on(&[delete(5)]), "it is being done");
        session.done(5, Answer::new(Status::Ok));
        assert!(goes_on(&[delete(5)]) && goes_on(&[delete(6), delete(5)]), "it was done");
        assert!(!goes_on(&[delete(6)]), "it is new");
        assert!(goes_on(&[Request::Close { handle: 1 }]));
        assert!(!goes_on(&[Request::Close { handle: 1 }, delete(6)]));
    }
}
