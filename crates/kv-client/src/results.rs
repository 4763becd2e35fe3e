//! Converts the store's answers to results of calls.

use std::borrow::Cow;
use std::time::Duration;

use kv_proto::wire::{Answer, Entries, Status};

use crate::error::{Error, ErrorKind, Resource};
use crate::outcome::{Outcome, ReceivedAnswer, metadata};
use crate::page::{Cursor, Page};
use crate::value::{Metadata, Value};

/// A value was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// The value's version.
    pub version: u64,
    /// Whether it replaced another value.
    pub replaced: bool,
}

/// The store's answer, or why there is none. `operation` names the call, such as `put "key"`.
pub(crate) fn received(
    outcome: Outcome,
    operation: impl FnOnce() -> String,
) -> Result<ReceivedAnswer, Error> {
    match outcome {
        Outcome::Answer(received) => Ok(received),
        Outcome::Unknown => {
            let why = "the connection was lost before the store answered, and the store does not know the request any \
                       more: it may or may not have happened — read before you write again";
            Err(Error::new(ErrorKind::Unknown, format!("{}: {why}", operation())))
        }
        Outcome::Unsent => {
            let why = "the client buffer has no space for the request — drop values that are not needed, or raise \
                       client_buffer_bytes";
            let error = Error::new(ErrorKind::ClientLimit, format!("{}: {why}", operation()));
            Err(error.of(Resource::ClientBuffer))
        }
        Outcome::Lost => {
            let why = "the connection was lost before the store answered — try again";
            Err(Error::new(ErrorKind::Unavailable, format!("{}: {why}", operation())))
        }
    }
}

/// The metadata of a value, if the key exists.
pub(crate) fn found(
    answer: &Answer,
    operation: impl FnOnce() -> String,
) -> Result<Option<Metadata>, Error> {
    match answer.status {
        Status::Ok => Ok(Some(metadata(answer))),
        Status::NotFound => Ok(None),
        _ => Err(refusal(answer, operation)),
    }
}

pub(crate) fn stored(answer: &Answer, operation: impl FnOnce() -> String) -> Result<Stored, Error> {
    match answer.status {
        Status::Ok => Ok(Stored { version: answer.version, replaced: answer.replaced }),
        _ => Err(refusal(answer, operation)),
    }
}

/// The deleted version, if the key existed.
pub(crate) fn deleted(
    answer: &Answer,
    operation: impl FnOnce() -> String,
) -> Result<Option<u64>, Error> {
    match answer.status {
        Status::Ok => Ok(Some(answer.version)),
        Status::NotFound => Ok(None),
        _ => Err(refusal(answer, operation)),
    }
}

/// Compares the checksum, if requested.
pub(crate) fn verify(
    answer: &Answer,
    value: Option<Value>,
    checked: bool,
    operation: impl FnOnce() -> String,
) -> Result<Option<Value>, Error> {
    match &value {
        Some(bytes) if checked && answer.checksum != Some(bytes.checksum()) => {
            Err(damaged(operation))
        }
        _ => Ok(value),
    }
}

/// A checksum does not match.
pub(crate) fn damaged(operation: impl FnOnce() -> String) -> Error {
    let why = "checksum mismatch between the bytes received and those in the store — try again, and check network \
               devices and memory if it happens twice";
    Error::new(ErrorKind::Damaged, format!("{}: {why}", operation()))
}

/// Checks that a value is complete.
pub(crate) fn complete_value(
    value: Option<Value>,
    length: u64,
    operation: impl FnOnce() -> String,
) -> Result<Value, Error> {
    let whole = value.filter(|value| value.len() as u64 == length);
    // So fragmented in the pool that one answer cannot hold it.
    whole.ok_or_else(|| {
        Error::new(
            ErrorKind::TooLong,
            format!(
                "{}: too fragmented in the store's memory for one answer — read it in chunks",
                operation()
            ),
        )
    })
}

pub(crate) fn beyond_client_buffer(length: u64, operation: impl FnOnce() -> String) -> Error {
    let text = format!(
        "{}: {length} bytes are more than half of the client buffer — read it in chunks, or raise \
         client_buffer_bytes",
        operation()
    );
    Error::new(ErrorKind::TooLong, text).of(Resource::ClientBuffer)
}

/// A page of keys.
pub(crate) fn page(
    answer: &Answer,
    value: Option<Value>,
    operation: impl Fn() -> String,
) -> Result<Page, Error> {
    found(answer, &operation)?;
    let bytes = value.map(|value| value.to_vec()).unwrap_or_default();
    let mut keys = Vec::new();
    for entry in Entries::new(&bytes) {
        let entry = entry.map_err(|why| {
            Error::new(ErrorKind::ProtocolError, format!("{}: {why}", operation()))
        })?;
        let expires_in = entry.expires_in.map(Duration::from_millis);
        let metadata = Metadata { length: entry.length, version: entry.version, expires_in };
        keys.push((entry.key.to_vec(), metadata));
    }
    let next = (answer.handle != 0).then_some(Cursor(answer.handle));
    Ok(Page { keys, next })
}

/// The store's answer does not match the request.
#[cold]
pub(crate) fn mismatch(operation: impl FnOnce() -> String) -> Error {
    let text = format!("{}: the store's answer does not match the request", operation());
    Error::new(ErrorKind::ProtocolError, text)
}

/// No answer in time.
#[cold]
pub(crate) fn too_late(limit: Duration, operation: impl FnOnce() -> String) -> Error {
    let text = format!(
        "{}: no answer within {limit:?}; the request may still be executed — check that the store is not overloaded",
        operation()
    );
    Error::new(ErrorKind::TimedOut, text)
}

/// The error for an answer that is a refusal.
pub(crate) fn refusal(answer: &Answer, operation: impl FnOnce() -> String) -> Error {
    let (kind, resource, why) = reason(answer);
    let error = Error::new(kind, format!("{}: {why}", operation()));
    match resource {
        Some(resource) => error.of(resource),
        None => error,
    }
}

fn reason(answer: &Answer) -> (ErrorKind, Option<Resource>, Cow<'static, str>) {
    let Answer { length, version, .. } = *answer;
    match answer.status {
        Status::Ok => {
            (ErrorKind::ProtocolError, None, "the store's answer does not match the request".into())
        }
        Status::NotFound => (ErrorKind::Other, None, "there is no such key".into()),
        Status::Exists => {
            let why = format!("the key exists already, in version {version}");
            (ErrorKind::Condition(Some(version)), None, why.into())
        }
        Status::Absent => (ErrorKind::Condition(None), None, "there is no such key".into()),
        Status::OtherVersion => {
            let why = format!("the key has version {version} now");
            (ErrorKind::Condition(Some(version)), None, why.into())
        }
        Status::Full => {
            let why = format!(
                "the store is full ({length} bytes are free) — delete values, or let the store evict values or use \
                 more memory"
            );
            (ErrorKind::Full, Some(Resource::StoreMemory), why.into())
        }
        Status::TooLong => {
            let why = format!(
                "the value is longer than the store's limit of {length} bytes — give the store more memory"
            );
            (ErrorKind::TooLong, Some(Resource::StoreMemory), why.into())
        }
        Status::NoRegion => (
            ErrorKind::Misuse,
            None,
            "the memory is not registered with this store, or too short".into(),
        ),
        Status::NoHandle => {
            let why = "the store has closed the handle: idle for too long, or the connection was lost — begin again";
            (ErrorKind::Unavailable, None, why.into())
        }
        Status::TooManyHandles => (
            ErrorKind::ClientLimit,
            None,
            "too many values are being read or written in chunks".into(),
        ),
        Status::Forgotten | Status::InFlight => {
            let why =
                "the store does not know whether the write was done — read before you write again";
            (ErrorKind::Unknown, None, why.into())
        }
        Status::Unreadable => {
            (ErrorKind::Other, None, "the store could not read our memory".into())
        }
        Status::Denied => {
            let why = "permission denied: this identity may only read, or only use other keys — see the server's \
                       token file";
            (ErrorKind::Denied, None, why.into())
        }
        Status::RateLimited => {
            let why = "rate limit of this identity exceeded — try again later";
            (ErrorKind::RateLimited, Some(Resource::StoreRate), why.into())
        }
        Status::DiskFull => {
            let why = "the store's disk is full, and nothing was written — free space on it";
            (ErrorKind::Full, Some(Resource::StoreDisk), why.into())
        }
        Status::DiskFailed => {
            let why = "the store's disk failed — see the store's log";
            (ErrorKind::Other, Some(Resource::StoreDisk), why.into())
        }
        Status::Damaged => {
            let why =
                "the value on the store's disk is damaged — put it again, or restore a backup";
            (ErrorKind::Damaged, Some(Resource::StoreDisk), why.into())
        }
        Status::Incomplete => (ErrorKind::Misuse, None, "chunks of the value are missing".into()),
        Status::Busy => {
            let why = "the store's limit of bytes in flight is reached, and nothing was done — try again, or put less \
                       at a time";
            (ErrorKind::Overloaded, Some(Resource::StoreInFlight), why.into())
        }
        Status::Closing => (ErrorKind::Unavailable, None, CLOSING.into()),
    }
}

/// A store that shuts down refuses all requests.
pub(crate) const CLOSING: &str =
    "the store is shutting down, and nothing was done — use another store, or try again later";

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: Status) -> ErrorKind {
        refusal(&Answer { version: 7, ..Answer::new(status) }, || "put \"k\"".to_owned()).kind()
    }

    #[test]
    fn every_refusal_has_a_kind_to_act_on() {
        assert_eq!(kind(Status::Exists), ErrorKind::Condition(Some(7)));
        assert_eq!(kind(Status::OtherVersion), ErrorKind::Condition(Some(7)));
        assert_eq!(kind(Status::Absent), ErrorKind::Condition(None));
        assert_eq!(
            (kind(Status::Full), kind(Status::DiskFull)),
            (ErrorKind::Full, ErrorKind::Full)
        );
        assert_eq!(
            (kind(Status::Busy), kind(Status::RateLimited)),
            (ErrorKind::Overloaded, ErrorKind::RateLimited)
        );
        assert_eq!(
            (kind(Status::Forgotten), kind(Status::InFlight)),
            (ErrorKind::Unknown, ErrorKind::Unknown)
        );
        assert_eq!(
            (kind(Status::NoHandle), kind(Status::Closing)),
            (ErrorKind::Unavailable, ErrorKind::Unavailable)
        );
        assert_eq!(kind(Status::Ok), ErrorKind::ProtocolError);
    }

    #[test]
    fn no_error_names_an_option_of_a_program() {
        for status in
            [Status::Full, Status::TooLong, Status::RateLimited, Status::Busy, Status::Damaged]
        {
            let error = refusal(&Answer::new(status), String::new);
            assert!(!error.to_string().contains("--"), "{error}");
            assert!(!error.to_string().contains("wirelane"), "{error}");
            assert!(error.resource().is_some(), "{error}");
        }
    }
}
