//! Counters of the gRPC service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use access::Connections;
use tonic::Code;

/// Calls by method, failures by code, and connections.
#[derive(Debug)]
pub struct GrpcCounts {
    calls: [AtomicU64; METHODS.len()],
    failures: [AtomicU64; CODES.len()],
    stalled: AtomicU64,
    connections: Arc<Connections>,
}

/// A method of the service.
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

impl Default for GrpcCounts {
    fn default() -> Self {
        GrpcCounts {
            calls: Default::default(),
            failures: Default::default(),
            stalled: AtomicU64::new(0),
            connections: Arc::new(Connections::new(MAX_CONNECTIONS)),
        }
    }
}

impl GrpcCounts {
    /// The number of calls, by method.
    pub fn calls(&self) -> impl Iterator<Item = (&'static str, u64)> {
        METHODS.into_iter().zip(&self.calls).map(|(name, count)| (name, count.load(Relaxed)))
    }

    /// The number of calls that failed, by code.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = CODES.into_iter().zip(&self.failures).skip(1);
        all.map(|(name, count)| (name, count.load(Relaxed)))
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.connections.count()
    }

    /// The number of connections closed because there were too many, because they did not use HTTP/2, or because they made
    /// no call and others needed their place.
    pub fn refused(&self) -> u64 {
        self.connections.refused()
    }

    /// The number of connections closed because an answer was not read in time.
    pub fn stalled(&self) -> u64 {
        self.stalled.load(Relaxed)
    }

    pub(super) fn called(&self, method: Method) {
        self.calls[method as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn failed(&self, code: Code) {
        if let Some(count) = self.failures.get(code as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn open_connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    pub(super) fn add_stalled(&self, connections: usize) {
        self.stalled.fetch_add(connections as u64, Relaxed);
    }
}

/// Most clients have one.
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
    fn names_are_in_the_order_of_their_numbers() {
        assert_eq!(METHODS[Method::Write as usize], "Write");
        assert_eq!(METHODS[Method::MultiPut as usize], "MultiPut");
        assert_eq!(CODES[Code::Unauthenticated as usize], "UNAUTHENTICATED");
        assert_eq!(CODES[Code::FailedPrecondition as usize], "FAILED_PRECONDITION");
        let counts = GrpcCounts::default();
        counts.called(Method::Get);
        counts.failed(Code::OutOfRange);
        assert!(counts.calls().any(|call| call == ("Get", 1)));
        assert!(counts.failures().any(|failure| failure == ("OUT_OF_RANGE", 1)));
    }
}
