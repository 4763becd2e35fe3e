//! The store's answers as results of calls.

use std::borrow::Cow;
use std::time::Duration;

use kv_proto::wire::{Answer, Entries, Status};

use crate::error::{Error, Kind, Resource};
use crate::in_flight::{Outcome, Reply, facts};
use crate::page::{Cursor, Page};
use crate::value::{Facts, Value};

/// A value was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// The value's version.
    pub version: u64,
    /// Whether it replaced another value.
    pub replaced: bool,
}

/// The store's answer, or why there is none. `what` names the call, such as `put "key"`.
pub(crate) fn reply(outcome: Outcome, what: impl FnOnce() -> String) -> Result<Reply, Error> {
    match outcome {
        Outcome::Answer(reply) => Ok(reply),
        Outcome::Unknown => {
            let why = "the connection was lost before the store answered, and the store reached now does not know \
                       of it: it may or may not have happened — read before you write again";
            Err(Error::new(Kind::Unknown, format!("{}: {why}", what())))
        }
        Outcome::Unsent => {
            let why = "the receive buffer has no room for the request — drop values that are not needed, or raise \
                       receive_buffer_bytes";
            let error = Error::new(Kind::Busy, format!("{}: {why}", what()));
            Err(error.of(Resource::ReceiveBuffer))
        }
        Outcome::Lost => {
            let why = "the connection was lost before the store answered — try again";
            Err(Error::new(Kind::Gone, format!("{}: {why}", what())))
        }
    }
}

/// Whether there is a value, and what is known of it.
pub(crate) fn found(
    answer: &Answer,
    what: impl FnOnce() -> String,
) -> Result<Option<Facts>, Error> {
    match answer.status {
        Status::Ok => Ok(Some(facts(answer))),
        Status::NotFound => Ok(None),
        _ => Err(refusal(answer, what)),
    }
}

pub(crate) fn stored(answer: &Answer, what: impl FnOnce() -> String) -> Result<Stored, Error> {
    match answer.status {
        Status::Ok => Ok(Stored { version: answer.version, replaced: answer.replaced }),
        _ => Err(refusal(answer, what)),
    }
}

/// Which version was deleted, if there was one.
pub(crate) fn deleted(
    answer: &Answer,
    what: impl FnOnce() -> String,
) -> Result<Option<u64>, Error> {
    match answer.status {
        Status::Ok => Ok(Some(answer.version)),
        Status::NotFound => Ok(None),
        _ => Err(refusal(answer, what)),
    }
}

/// The bytes that came, if their checksum is the store's where one was asked for.
pub(crate) fn sound(
    answer: &Answer,
    value: Option<Value>,
    checked: bool,
    what: impl FnOnce() -> String,
) -> Result<Option<Value>, Error> {
    match &value {
        Some(bytes) if checked && answer.checksum != Some(bytes.checksum()) => Err(damaged(what)),
        _ => Ok(value),
    }
}

/// What came is not what was sent.
pub(crate) fn damaged(what: impl FnOnce() -> String) -> Error {
    let why = "checksum mismatch between the bytes received and those in the store — try again, and check network \
               devices and memory if it happens twice";
    Error::new(Kind::Damaged, format!("{}: {why}", what()))
}

/// A value that was asked for as a whole.
pub(crate) fn whole(
    value: Option<Value>,
    length: u64,
    what: impl FnOnce() -> String,
) -> Result<Value, Error> {
    let whole = value.filter(|value| value.len() as u64 == length);
    // So scattered in the pool that one answer cannot hold it.
    whole.ok_or_else(|| {
        Error::new(
            Kind::TooLong,
            format!(
                "{}: too fragmented in the store's memory for one answer — read it in pieces",
                what()
            ),
        )
    })
}

pub(crate) fn beyond_receive_buffer(length: u64, what: impl FnOnce() -> String) -> Error {
    let text = format!(
        "{}: {length} bytes are more than half of the receive buffer — read it in pieces, or raise \
         receive_buffer_bytes",
        what()
    );
    Error::new(Kind::TooLong, text).of(Resource::ReceiveBuffer)
}

/// A page of keys.
pub(crate) fn page(
    answer: &Answer,
    value: Option<Value>,
    what: impl Fn() -> String,
) -> Result<Page, Error> {
    found(answer, &what)?;
    let bytes = value.map(|value| value.to_vec()).unwrap_or_default();
    let mut keys = Vec::new();
    for entry in Entries::new(&bytes) {
        let entry =
            entry.map_err(|why| Error::new(Kind::ProtocolError, format!("{}: {why}", what())))?;
        let expires_in = entry.expires_in.map(Duration::from_millis);
        let facts = Facts { length: entry.length, version: entry.version, expires_in };
        keys.push((entry.key.to_vec(), facts));
    }
    let next = (answer.handle != 0).then_some(Cursor(answer.handle));
    Ok(Page { keys, next })
}

/// The store's answer is not one to this request.
#[cold]
pub(crate) fn mismatch(what: impl FnOnce() -> String) -> Error {
    let text = format!("{}: the store's answer does not match the request", what());
    Error::new(Kind::ProtocolError, text)
}

/// No answer came in time.
#[cold]
pub(crate) fn too_late(limit: Duration, what: impl FnOnce() -> String) -> Error {
    let text = format!(
        "{}: no answer within {limit:?}; the request may still be done — check that the store is not overloaded",
        what()
    );
    Error::new(Kind::Deadline, text)
}

/// Why the store did not do it.
pub(crate) fn refusal(answer: &Answer, what: impl FnOnce() -> String) -> Error {
    let (kind, resource, why) = reason(answer);
    let error = Error::new(kind, format!("{}: {why}", what()));
    match resource {
        Some(resource) => error.of(resource),
        None => error,
    }
}

fn reason(answer: &Answer) -> (Kind, Option<Resource>, Cow<'static, str>) {
    let Answer { length, version, .. } = *answer;
    match answer.status {
        Status::Ok => {
            (Kind::ProtocolError, None, "the store's answer does not match the request".into())
        }
        Status::NotFound => (Kind::Other, None, "there is no such key".into()),
        Status::Exists => {
            let why = format!("the key exists already, in version {version}");
            (Kind::Condition(Some(version)), None, why.into())
        }
        Status::Absent => (Kind::Condition(None), None, "there is no such key".into()),
        Status::OtherVersion => {
            let why = format!("the key has version {version} now");
            (Kind::Condition(Some(version)), None, why.into())
        }
        Status::Full => {
            let why = format!(
                "the store is full ({length} bytes are free) — delete values, or let the store evict values or use \
                 more memory"
            );
            (Kind::Full, Some(Resource::StoreMemory), why.into())
        }
        Status::TooLong => {
            let why = format!(
                "the value is longer than the store accepts: {length} bytes at most — give the store more memory"
            );
            (Kind::TooLong, Some(Resource::StoreMemory), why.into())
        }
        Status::NoRegion => (
            Kind::Misuse,
            None,
            "the memory is not registered with this store, or too short".into(),
        ),
        Status::NoHandle => {
            let why = "the store has closed it: it was idle for too long, or the connection was lost — begin again";
            (Kind::Gone, None, why.into())
        }
        Status::TooManyHandles => {
            (Kind::Busy, None, "too many values are being read or written in pieces".into())
        }
        Status::Forgotten | Status::InFlight => {
            let why = "the store does not know whether it was done — read before you write again";
            (Kind::Unknown, None, why.into())
        }
        Status::Unreadable => (Kind::Other, None, "the store could not read our memory".into()),
        Status::Denied => {
            let why = "permission denied: this identity may only read, or only use other keys — see the server's \
                       token file";
            (Kind::Denied, None, why.into())
        }
        Status::TooOften => {
            let why = "more requests in a second than the store accepts from this identity — try again later";
            (Kind::RateLimited, Some(Resource::StoreRate), why.into())
        }
        Status::DiskFull => {
            let why = "the store's disk is full, and nothing was written — make room on it";
            (Kind::Full, Some(Resource::StoreDisk), why.into())
        }
        Status::DiskFailed => {
            let why = "the store's disk fails — see the store's log";
            (Kind::Other, Some(Resource::StoreDisk), why.into())
        }
        Status::Damaged => {
            let why =
                "the value on the store's disk is damaged — put it again, or restore a backup";
            (Kind::Damaged, Some(Resource::StoreDisk), why.into())
        }
        Status::Incomplete => (Kind::Misuse, None, "pieces of the value are missing".into()),
        Status::Busy => {
            let why = "the store's limit of bytes in flight is reached, and nothing was done — try again, or put less \
                       at a time";
            (Kind::Overloaded, Some(Resource::StoreInFlight), why.into())
        }
        Status::Closing => (Kind::Gone, None, CLOSING.into()),
    }
}

/// Why a store refuses everything that is about to end.
pub(crate) const CLOSING: &str =
    "the store is shutting down, and nothing was done — ask another store, or later";

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: Status) -> Kind {
        refusal(&Answer { version: 7, ..Answer::new(status) }, || "put \"k\"".to_owned()).kind()
    }

    #[test]
    fn every_refusal_has_a_kind_to_act_on() {
        assert_eq!(kind(Status::Exists), Kind::Condition(Some(7)));
        assert_eq!(kind(Status::OtherVersion), Kind::Condition(Some(7)));
        assert_eq!(kind(Status::Absent), Kind::Condition(None));
        assert_eq!((kind(Status::Full), kind(Status::DiskFull)), (Kind::Full, Kind::Full));
        assert_eq!(
            (kind(Status::Busy), kind(Status::TooOften)),
            (Kind::Overloaded, Kind::RateLimited)
        );
        assert_eq!(
            (kind(Status::Forgotten), kind(Status::InFlight)),
            (Kind::Unknown, Kind::Unknown)
        );
        assert_eq!((kind(Status::NoHandle), kind(Status::Closing)), (Kind::Gone, Kind::Gone));
        assert_eq!(kind(Status::Ok), Kind::ProtocolError);
    }

    #[test]
    fn no_error_names_an_option_of_a_program() {
        for status in
            [Status::Full, Status::TooLong, Status::TooOften, Status::Busy, Status::Damaged]
        {
            let error = refusal(&Answer::new(status), String::new);
            assert!(!error.to_string().contains("--"), "{error}");
            assert!(!error.to_string().contains("wirelane"), "{error}");
            assert!(error.resource().is_some(), "{error}");
        }
    }
}
