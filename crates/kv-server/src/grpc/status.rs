//! How the store says no by gRPC: every status is made here, but for those of messages that cannot be meant
//! (`kv_proto::Error`) and of conditions that do not hold (`kv_proto::NotMet`). The .proto has the table.

use kv_proto::limits::{MAX_MESSAGE_BYTES, MAX_UNARY_BYTES};
use kv_proto::wire::{Answer, Status as Said};
use kv_proto::{NotMet, v1};
use kv_store::{ReserveError, WriteError};
use tonic::Status;

use access::Refused;

/// The reply to a put that was answered so, now or before.
pub(super) fn put(answer: &Answer) -> Result<v1::PutReply, Status> {
    match answer.status {
        Said::Ok => Ok(v1::PutReply { version: answer.version, replaced: answer.replaced }),
        _ => Err(refused(answer)),
    }
}

/// The reply to a delete that was answered so, now or before.
pub(super) fn delete(answer: &Answer) -> Result<v1::DeleteReply, Status> {
    match answer.status {
        Said::Ok => Ok(v1::DeleteReply { existed: true, version: answer.version }),
        Said::NotFound => Ok(v1::DeleteReply { existed: false, version: 0 }),
        _ => Err(refused(answer)),
    }
}

/// A write that changed nothing, since its condition did not hold, or there was no room for its key.
fn refused(answer: &Answer) -> Status {
    match answer.status {
        Said::Exists | Said::OtherVersion => NotMet { current: Some(answer.version) }.into(),
        Said::Absent => NotMet { current: None }.into(),
        Said::Full => Status::resource_exhausted(WriteError::IndexFull.to_string()),
        Said::DiskFull | Said::DiskFailed | Said::Damaged => unread(answer.status),
        // Its number was used for a write of another kind.
        other => Status::invalid_argument(format!(
            "this attempt was a write of another kind, and its answer was {other:?} — give each write a \
             number of its own"
        )),
    }
}

/// What the disk could not do.
pub(super) fn unread(said: Said) -> Status {
    match said {
        Said::DiskFull => Status::resource_exhausted(
            "the server's disk is full, and nothing was written — make room on it",
        ),
        Said::Damaged => Status::data_loss(
            "what the server's disk has of this key is damaged — put it again, or restore a backup",
        ),
        Said::Full | Said::TooLong => Status::resource_exhausted(
            "the value is on the server's disk, and there is no memory to read it into — ask again",
        ),
        _ => Status::unavailable("the server's disk fails — see the server's log"),
    }
}

/// There is no memory for a value.
pub(super) fn no_room(why: &ReserveError) -> Status {
    match why {
        ReserveError::TooLong { max } => Status::invalid_argument(format!(
            "the value is longer than this server takes, {max} bytes at most — cut it into several, or give \
             the server more memory"
        )),
        ReserveError::Full { .. } => Status::resource_exhausted(why.to_string()),
    }
}

/// As much is on its way as may be.
pub(super) fn too_much_in_flight() -> Status {
    Status::resource_exhausted(
        "as many bytes are on their way to this server as it takes (--max-in-flight). Nothing was changed — ask \
         again, or put less at a time",
    )
}

/// A value that needs a stream.
pub(super) fn too_much_for_one_message(bytes: u64, instead: &str) -> Status {
    Status::out_of_range(format!(
        "{bytes} bytes, and one message carries {MAX_UNARY_BYTES} — use {instead}"
    ))
}

/// One value of several for which the message has no room.
pub(super) fn message_full() -> Status {
    Status::out_of_range("the reply was full — get this key by another call")
}

/// A cursor that no listing of this server gave out.
pub(super) fn no_cursor(cursor: u64) -> Status {
    Status::invalid_argument(format!(
        "no listing of this server goes on at {cursor} — begin anew with cursor 0"
    ))
}

/// The session of an attempt is not there.
pub(super) fn no_session() -> Status {
    Status::unknown(
        "this session is not known: the server has restarted, or the session was idle for too long. This \
         call has done nothing; an earlier one with the same attempt may have — look at the key, open a \
         new session and decide",
    )
}

/// A write's answer is not kept any more, or its number is far from all others.
pub(super) fn forgotten(sequence: u64, window: u64) -> Status {
    Status::unknown(format!(
        "attempt {sequence} is more than {window} away from others of its session, so that its answer may \
         have been forgotten. This call has done nothing; an earlier one may have — look at the key"
    ))
}

/// The same attempt, by another call.
pub(super) fn in_flight() -> Status {
    Status::aborted("another call with the same attempt is in flight — ask again for its answer")
}

/// No room for another session.
pub(super) fn too_many_sessions() -> Status {
    Status::resource_exhausted("too many sessions are open — use one for many writes, or wait")
}

/// No room for another call.
pub(super) fn too_many_calls() -> Status {
    Status::resource_exhausted("too many calls are in flight — wait a little and ask again")
}

/// The server is about to end.
pub(super) fn shutting_down() -> Status {
    Status::unavailable(
        "this server is shutting down. Nothing was changed — ask another one, or later",
    )
}

/// A call that takes too long to wait for.
pub(super) fn undecided(seconds: u64) -> Status {
    Status::unknown(format!(
        "it was not done after {seconds} s, as when the server's disk stands still. A write may have taken effect, \
         or will — look at the key, or ask again with the same attempt"
    ))
}

/// A request that did not arrive in time.
pub(super) fn too_slow(seconds: u64) -> Status {
    Status::deadline_exceeded(format!(
        "nothing came for {seconds} s. Nothing was changed — begin anew"
    ))
}

/// A stream that does not begin as it must.
pub(super) fn no_start() -> Status {
    Status::invalid_argument("the stream has no start — send WriteStart first, and once")
}

/// A stream that ends too soon or goes on too long.
pub(super) fn wrong_length(announced: u64, came: u64) -> Status {
    Status::invalid_argument(format!(
        "start announced {announced} bytes, and {came} came. Nothing was changed — announce what you send"
    ))
}

/// A piece that has neither part.
pub(super) fn empty_piece() -> Status {
    Status::invalid_argument("a message of the stream has no part — send start, then data")
}

/// Somebody may not do this. As one of several refusals it must be short.
pub(super) fn denied(refused: Refused) -> Status {
    match refused {
        Refused::NoCredentials => Status::unauthenticated(
            "this server wants credentials — send `authorization: Bearer TOKEN`, or show a certificate where \
             it takes them; or start it with --allow-anonymous",
        ),
        Refused::WrongToken => {
            Status::unauthenticated("this token is not known here — see the server's token file")
        }
        Refused::WrongCertificate => Status::unauthenticated(
            "this certificate's name is not known here — give it a line in the server's token file",
        ),
        Refused::Scope => Status::permission_denied(
            "permission denied: this identity may only read, or only use other keys — see its line in the server's \
             token file",
        ),
        Refused::Rate => Status::resource_exhausted(
            "more requests in a second than this identity may ask (--max-rate) — wait a little and ask again",
        ),
    }
}

/// It speaks so that everybody can hear it, where it need not.
pub(super) fn wants_tls() -> Status {
    Status::unauthenticated(
        "this server speaks TLS, and this call came without — use a secure channel with the certificate of its CA",
    )
}

/// Secrets are not told where others hear them.
pub(super) fn not_secure() -> Status {
    Status::failed_precondition(
        "a ticket is a secret, and this call is not encrypted — start the server with --tls-cert and --tls-key",
    )
}

/// There is nobody to be known by a ticket.
pub(super) fn nobody() -> Status {
    Status::unauthenticated("authentication required for a ticket — show a certificate or a token")
}

/// No ticket can be issued.
pub(super) fn no_ticket(error: &fabric::Error) -> Status {
    Status::resource_exhausted(error.to_string())
}

/// Where there is no such service.
pub(super) fn no_service() -> Status {
    Status::unimplemented("there is no such service — ask reflection for those there are")
}

const _: () = assert!(MAX_UNARY_BYTES < MAX_MESSAGE_BYTES);

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn answers_become_what_the_proto_says() {
        let answer = |status| Answer { version: 7, ..Answer::new(status) };
        assert_eq!(put(&answer(Said::Ok)).unwrap().version, 7);
        for said in [Said::Exists, Said::OtherVersion] {
            let status = put(&answer(said)).unwrap_err();
            assert_eq!(NotMet::of(&status), Some(NotMet { current: Some(7) }));
        }
        let status = delete(&answer(Said::Absent)).unwrap_err();
        assert_eq!(NotMet::of(&status), Some(NotMet { current: None }));
        assert!(delete(&answer(Said::Ok)).unwrap().existed);
        assert!(!delete(&answer(Said::NotFound)).unwrap().existed);
        assert_eq!(put(&answer(Said::NotFound)).unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(put(&answer(Said::Full)).unwrap_err().code(), Code::ResourceExhausted);
        let full = ReserveError::Full { needed: 9, free: 1, pinned: 0 };
        assert_eq!(no_room(&full).code(), Code::ResourceExhausted);
        assert_eq!(no_room(&ReserveError::TooLong { max: 1 }).code(), Code::InvalidArgument);
    }
}
