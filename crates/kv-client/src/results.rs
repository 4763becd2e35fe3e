//! What the store's answers mean to who asked.

use std::time::Duration;

use kv_proto::wire::{Answer, Entries, Status};

use crate::client::Listed;
use crate::error::{Error, Kind};
use crate::in_flight::{Outcome, facts};
use crate::value::{Facts, Value};

/// A value was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its version.
    pub version: u64,
    /// Whether there was one before.
    pub replaced: bool,
}

/// The store's answer, or why there is none. `what` names the call, such as `put "key"`.
pub(crate) fn answer(
    outcome: Outcome,
    what: impl FnOnce() -> String,
) -> Result<(Answer, Option<Value>), Error> {
    match outcome {
        Outcome::Answer(answer, value) => Ok((answer, value)),
        Outcome::Unknown => {
            let why = "the store was lost before it answered, and the one reached now does not know of it: it \
                       may have happened or not — look before doing it again";
            Err(Error::new(Kind::Unknown, format!("{}: {why}", what())))
        }
        Outcome::Unsent => {
            let why = "there was no receive buffer left to ask with — drop values that are not needed, or use \
                       a larger buffer (--buffer)";
            Err(Error::new(Kind::Busy, format!("{}: {why}", what())))
        }
        Outcome::Lost => {
            let why = "the store was lost before it answered — ask again";
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
    let why = "the bytes that came are not those that the store sent: their checksums differ — ask again, and \
               look for a faulty device or memory on the way if it happens twice";
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
    whole.ok_or_else(|| Error::new(Kind::TooLong, format!("{}: read it in pieces", what())))
}

pub(crate) fn beyond_receive_buffer(length: u64, what: impl FnOnce() -> String) -> Error {
    let text = format!(
        "{}: {length} bytes are more than half of the receive buffer — read it in pieces, or use a larger \
         buffer (--buffer)",
        what()
    );
    Error::new(Kind::TooLong, text)
}

/// A page of keys.
pub(crate) fn listed(
    answer: &Answer,
    value: Option<Value>,
    what: impl Fn() -> String,
) -> Result<Listed, Error> {
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
    Ok(Listed { keys, next: (answer.handle != 0).then_some(answer.handle) })
}

/// Why the store did not do it.
pub(crate) fn refusal(answer: &Answer, what: impl FnOnce() -> String) -> Error {
    let Answer { length, version, .. } = *answer;
    let (kind, why) = match answer.status {
        Status::Ok => {
            (Kind::ProtocolError, "the store's answer does not match the request".to_owned())
        }
        Status::NotFound => (Kind::Other, "there is no such key".to_owned()),
        Status::Exists => (
            Kind::Condition(Some(version)),
            format!("the key exists already, in version {version}"),
        ),
        Status::Absent => (Kind::Condition(None), "there is no such key".to_owned()),
        Status::OtherVersion => {
            (Kind::Condition(Some(version)), format!("the key has version {version} by now"))
        }
        Status::Full => {
            let why = format!(
                "the store is full ({length} bytes are free) — delete something, let it evict \
                 (--when-full evict), or give it more --memory"
            );
            (Kind::Full, why)
        }
        Status::TooLong => {
            let why = format!(
                "the value is longer than the store takes: {length} bytes at most — give the store more \
                 --memory"
            );
            (Kind::TooLong, why)
        }
        Status::NoRegion => {
            (Kind::Misuse, "the memory named is not registered, or too small".to_owned())
        }
        Status::NoHandle => {
            let why = "the store has closed it: nothing came for too long, or the connection was lost — begin again";
            (Kind::Gone, why.to_owned())
        }
        Status::TooManyHandles => {
            (Kind::Busy, "too many values are being read or written in pieces".to_owned())
        }
        Status::Forgotten | Status::InBatch => {
            let why = "the store cannot tell whether it was done — look before doing it again";
            (Kind::Unknown, why.to_owned())
        }
        Status::Unreadable => (Kind::Other, "the store could not read our memory".to_owned()),
        Status::Denied => {
            let why = "permission denied: this identity may only read, or only use other keys — see its line in the \
                       server's token file";
            (Kind::Denied, why.to_owned())
        }
        Status::TooOften => {
            let why = "more requests in a second than the store lets this identity ask (--max-rate) — wait a \
                       little and ask again";
            (Kind::Busy, why.to_owned())
        }
        Status::DiskFull => {
            let why = "the store's disk is full, and nothing was written — make room on it";
            (Kind::Full, why.to_owned())
        }
        Status::DiskFailed => {
            let why = "the store's disk fails — see the store's log";
            (Kind::Other, why.to_owned())
        }
        Status::Damaged => {
            let why = "what the store's disk has of it is damaged — put it again, or restore a backup; see \
                       `wirelane kv fsck`";
            (Kind::Damaged, why.to_owned())
        }
        Status::Incomplete => (Kind::Misuse, "pieces of the value are missing".to_owned()),
        Status::Busy => {
            let why = "as many bytes are on their way to the store as it takes (--max-in-flight); nothing was \
                       done — ask again, or put less at a time";
            (Kind::Overloaded, why.to_owned())
        }
        Status::Closing => (Kind::Gone, CLOSING.to_owned()),
    };
    Error::new(kind, format!("{}: {why}", what()))
}

/// What a store says that is about to end.
pub(crate) const CLOSING: &str =
    "the store is shutting down; nothing was done — ask another one, or later";
