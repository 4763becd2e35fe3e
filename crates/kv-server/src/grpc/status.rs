//! The gRPC statuses of refused calls, except those of invalid messages (`kv_proto::Error`) and of conditions that are
//! not met (`kv_proto::NotMet`). The .proto has the table.

use kv_proto::limits::{MAX_MESSAGE_BYTES, MAX_UNARY_BYTES};
use kv_proto::wire::{Answer, Status as WireStatus};
use kv_proto::{NotMet, v1};
use kv_store::{ReserveError, WriteError};
use tonic::Status;

use access::{NotAdmitted, Refused};

/// The reply to a put, from its answer.
pub(super) fn put(answer: &Answer) -> Result<v1::PutReply, Status> {
    match answer.status {
        WireStatus::Ok => Ok(v1::PutReply { version: answer.version, replaced: answer.replaced }),
        _ => Err(refused(answer)),
    }
}

/// The reply to a delete, from its answer.
pub(super) fn delete(answer: &Answer) -> Result<v1::DeleteReply, Status> {
    match answer.status {
        WireStatus::Ok => Ok(v1::DeleteReply { existed: true, version: answer.version }),
        WireStatus::NotFound => Ok(v1::DeleteReply { existed: false, version: 0 }),
        _ => Err(refused(answer)),
    }
}

/// A write that changed nothing, because its condition was not met, or the index or the disk was full.
fn refused(answer: &Answer) -> Status {
    match answer.status {
        WireStatus::Exists | WireStatus::OtherVersion => {
            NotMet { current: Some(answer.version) }.into()
        }
        WireStatus::Absent => NotMet { current: None }.into(),
        WireStatus::Full => Status::resource_exhausted(WriteError::IndexFull.to_string()),
        WireStatus::DiskFull | WireStatus::DiskFailed | WireStatus::Damaged => {
            disk_error(answer.status)
        }
        // Its number was used for another kind of write.
        other => Status::invalid_argument(format!(
            "this write id was used for another kind of write, which was answered {other:?} — use a new \
             sequence number for each write"
        )),
    }
}

/// A failure of the disk.
pub(super) fn disk_error(status: WireStatus) -> Status {
    match status {
        WireStatus::DiskFull => Status::resource_exhausted(
            "the server's disk is full, nothing was written — free space on it",
        ),
        WireStatus::Damaged => Status::data_loss(
            "the value of this key is damaged on the server's disk — put it again, or restore a backup",
        ),
        WireStatus::Full | WireStatus::TooLong => Status::resource_exhausted(
            "the value is on the server's disk, and there is no memory to load it — retry",
        ),
        _ => Status::unavailable("the server's disk failed — see the server's log"),
    }
}

/// No memory for a value.
pub(super) fn out_of_memory(why: &ReserveError) -> Status {
    match why {
        ReserveError::TooLong { max } => Status::invalid_argument(format!(
            "the value is too long for this server, {max} bytes at most — split it, or give \
             the server more memory"
        )),
        ReserveError::Full { .. } => Status::resource_exhausted(why.to_string()),
    }
}

/// The quota of bytes in flight is exhausted.
pub(super) fn too_much_in_flight() -> Status {
    Status::resource_exhausted(
        "too many bytes in flight to this server (--max-in-flight). Nothing was changed — \
         retry, or put less at a time",
    )
}

/// A value that is too long for a unary call.
pub(super) fn too_much_for_one_message(bytes: u64, instead: &str) -> Status {
    Status::out_of_range(format!(
        "{bytes} bytes exceed the limit of one message, {MAX_UNARY_BYTES} — use {instead}"
    ))
}

/// A value of a multi-get that does not fit into the reply.
pub(super) fn message_full() -> Status {
    Status::out_of_range("the reply is full — get this key in another call")
}

/// An unknown cursor.
pub(super) fn no_cursor(cursor: u64) -> Status {
    Status::invalid_argument(format!("unknown cursor {cursor} — restart the listing with cursor 0"))
}

/// The session of a write id is unknown.
pub(super) fn no_session() -> Status {
    Status::unknown(
        "unknown session: the server has restarted, or the session was idle for too long, or it was removed \
         because sessions took too much memory (store_sessions_evicted_total). This \
         call has done nothing; an earlier one with the same write id may have — check the key, then open a \
         new session",
    )
}

/// A write's answer is no longer kept, or its number is too far from the others.
pub(super) fn forgotten(sequence: u64, window: u64) -> Status {
    Status::unknown(format!(
        "write {sequence} is more than {window} away from others of its session, so its answer may \
         have been forgotten. This call has done nothing; an earlier one may have — check the key"
    ))
}

/// The same write is in flight in another call.
pub(super) fn in_flight() -> Status {
    Status::aborted("another call with the same write id is in flight — retry for its answer")
}

/// Too many sessions.
pub(super) fn too_many_sessions() -> Status {
    Status::resource_exhausted("too many sessions are open — use one for many writes, or wait")
}

/// Too many calls.
pub(super) fn too_many_calls() -> Status {
    Status::resource_exhausted("too many calls in flight — retry later")
}

/// The connection may not make calls.
pub(super) fn not_admitted(why: NotAdmitted) -> Status {
    match why {
        NotAdmitted::Replaced => Status::unavailable(
            "this connection is being closed: there are too many. Nothing was changed — connect again",
        ),
        NotAdmitted::TooMany => Status::resource_exhausted(
            "too many connections of this identity. Nothing was changed — close some, or share one: \
             a connection takes many calls at a time",
        ),
    }
}

/// The server is shutting down.
pub(super) fn shutting_down() -> Status {
    Status::unavailable(
        "this server is shutting down. Nothing was changed — use another server, or retry later",
    )
}

/// A call whose outcome is unknown after the timeout.
pub(super) fn outcome_unknown(seconds: u64) -> Status {
    Status::unknown(format!(
        "not finished after {seconds} s, as when the server's disk hangs. A write may still take \
         effect — check the key, or retry with the same write id"
    ))
}

/// A request that did not arrive in time.
pub(super) fn too_slow(seconds: u64) -> Status {
    Status::deadline_exceeded(format!(
        "nothing received for {seconds} s. Nothing was changed — retry"
    ))
}

/// A stream without its start message.
pub(super) fn no_start() -> Status {
    Status::invalid_argument("the stream has no start — send WriteStart first, once")
}

/// A stream that is shorter or longer than announced.
pub(super) fn wrong_length(announced: u64, received: u64) -> Status {
    Status::invalid_argument(format!(
        "WriteStart announced {announced} bytes, {received} were received. Nothing was changed — announce the exact length"
    ))
}

/// A message of a stream without content.
pub(super) fn empty_chunk() -> Status {
    Status::invalid_argument("a message of the stream is empty — send start, then data")
}

/// A caller without permission. Short, because a reply may have many of them.
pub(super) fn denied(refused: Refused) -> Status {
    match refused {
        Refused::NoCredentials => Status::unauthenticated(
            "authentication required — send `authorization: Bearer TOKEN`, or a client certificate \
             if the server accepts them; or start it with --allow-anonymous",
        ),
        Refused::WrongToken => {
            Status::unauthenticated("unknown token — see the server's token file")
        }
        Refused::WrongCertificate => {
            Status::unauthenticated("unknown certificate name — add it to the server's token file")
        }
        Refused::Scope => Status::permission_denied(
            "permission denied: this identity may only read, or only use other keys — see its line in the server's \
             token file",
        ),
        Refused::Rate => Status::resource_exhausted(
            "rate limit of this identity exceeded (--max-rate) — retry later",
        ),
    }
}

/// A call without TLS to a server that requires it.
pub(super) fn tls_required() -> Status {
    Status::unauthenticated(
        "TLS required, and this call is not encrypted — use a secure channel with the certificate of the server's CA",
    )
}

/// A ticket is not sent over a connection that is not encrypted.
pub(super) fn not_secure() -> Status {
    Status::failed_precondition(
        "a ticket is a secret, and this call is not encrypted — start the server with --tls-cert and --tls-key",
    )
}

/// An anonymous caller cannot get a ticket.
pub(super) fn anonymous() -> Status {
    Status::unauthenticated("authentication required for a ticket — send a certificate or a token")
}

/// A ticket cannot be issued.
pub(super) fn no_ticket(error: &fabric::Error) -> Status {
    Status::resource_exhausted(error.to_string())
}

/// An unknown service.
pub(super) fn no_service() -> Status {
    Status::unimplemented("no such service — list the services by reflection")
}

const _: () = assert!(MAX_UNARY_BYTES < MAX_MESSAGE_BYTES);

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn answers_have_the_statuses_of_the_proto() {
        let answer = |status| Answer { version: 7, ..Answer::new(status) };
        assert_eq!(put(&answer(WireStatus::Ok)).unwrap().version, 7);
        for wire_status in [WireStatus::Exists, WireStatus::OtherVersion] {
            let status = put(&answer(wire_status)).unwrap_err();
            assert_eq!(NotMet::of(&status), Some(NotMet { current: Some(7) }));
        }
        let status = delete(&answer(WireStatus::Absent)).unwrap_err();
        assert_eq!(NotMet::of(&status), Some(NotMet { current: None }));
        assert!(delete(&answer(WireStatus::Ok)).unwrap().existed);
        assert!(!delete(&answer(WireStatus::NotFound)).unwrap().existed);
        assert_eq!(put(&answer(WireStatus::NotFound)).unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(put(&answer(WireStatus::Full)).unwrap_err().code(), Code::ResourceExhausted);
        let full = ReserveError::Full { needed: 9, free: 1, pinned: 0 };
        assert_eq!(out_of_memory(&full).code(), Code::ResourceExhausted);
        assert_eq!(out_of_memory(&ReserveError::TooLong { max: 1 }).code(), Code::InvalidArgument);
    }
}
