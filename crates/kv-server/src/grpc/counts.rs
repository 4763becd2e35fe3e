//! What was asked for by gRPC, in numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tonic::Code;

/// Calls by method, refusals by code, and connections.
#[derive(Debug)]
pub struct Counts {
    calls: [AtomicU64; METHODS.len()],
    failures: [AtomicU64; CODES.len()],
    turned_away: AtomicU64,
    hung_up: AtomicU64,
    places: Arc<Semaphore>,
}

/// A call of the service.
#[derive(Debug, Clone, Copy)]
pub(super) enum Method {
    Delete,
    Get,
    Info,
    List,
    MultiGet,
    MultiPut,
    OpenSession,
    Put,
    Read,
    Stat,
    Ticket,
    Write,
}

impl Default for Counts {
    fn default() -> Self {
        Counts {
            calls: Default::default(),
            failures: Default::default(),
            turned_away: AtomicU64::new(0),
            hung_up: AtomicU64::new(0),
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        }
    }
}

impl Counts {
    /// How often each method was called.
    pub fn calls(&self) -> impl Iterator<Item = (&'static str, u64)> {
        METHODS.into_iter().zip(&self.calls).map(|(name, count)| (name, count.load(Relaxed)))
    }

    /// How many calls ended with each code, but for OK.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = CODES.into_iter().zip(&self.failures).skip(1);
        all.map(|(name, count)| (name, count.load(Relaxed)))
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        MAX_CONNECTIONS - self.places.available_permits()
    }

    /// How many connections were closed because there were too many, or because they spoke no HTTP/2, or made no
    /// call and others needed their places.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Relaxed)
    }

    /// How many connections were closed because an answer was not read for too long.
    pub fn idled(&self) -> u64 {
        self.hung_up.load(Relaxed)
    }

    pub(super) fn called(&self, method: Method) {
        self.calls[method as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn failed(&self, code: Code) {
        if let Some(count) = self.failures.get(code as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn turn_away(&self) {
        self.turned_away.fetch_add(1, Relaxed);
    }

    pub(super) fn hung_up(&self, connections: usize) {
        self.hung_up.fetch_add(connections as u64, Relaxed);
    }

    /// A place for a connection, if there is one.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// A place for a connection, when there is one again.
    pub(super) async fn next_place(&self, patience: Duration) -> Option<OwnedSemaphorePermit> {
        timeout(patience, self.places.clone().acquire_owned()).await.ok()?.ok()
    }

    /// Waits until there is no connection any more.
    pub(super) async fn empty(&self) {
        let _ = self.places.acquire_many(MAX_CONNECTIONS as u32).await;
    }
}

/// Each client has one, mostly.
const MAX_CONNECTIONS: usize = 512;

/// In the order of [`Method`].
const METHODS: [&str; 12] = [
    "Delete",
    "Get",
    "Info",
    "List",
    "MultiGet",
    "MultiPut",
    "OpenSession",
    "Put",
    "Read",
    "Stat",
    "Ticket",
    "Write",
];

/// In the order of their numbers.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_numbers() {
        assert_eq!(METHODS[Method::Write as usize], "Write");
        assert_eq!(METHODS[Method::MultiPut as usize], "MultiPut");
        assert_eq!(CODES[Code::Unauthenticated as usize], "UNAUTHENTICATED");
        assert_eq!(CODES[Code::FailedPrecondition as usize], "FAILED_PRECONDITION");
        let counts = Counts::default();
        counts.called(Method::Get);
        counts.failed(Code::OutOfRange);
        assert!(counts.calls().any(|call| call == ("Get", 1)));
        assert!(counts.failures().any(|failure| failure == ("OUT_OF_RANGE", 1)));
    }
}
