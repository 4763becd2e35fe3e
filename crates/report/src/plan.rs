//! What to measure.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One measurement. The end that serves takes it as it is, or refuses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Bandwidth, latency or rate.
    pub test: Test,
    /// By which operation.
    pub operation: Operation,
    /// Over which lanes.
    pub transport: Transport,
    /// Bytes of one operation.
    pub size: u64,
    /// Operations in flight on each lane; a latency test has one.
    pub depth: u32,
    /// Lanes on each rail: queue pairs, connections.
    pub lanes: u32,
    /// Pairs of RDMA ports at most; other transports have one.
    pub rails: u32,
    /// Both ends stream at once.
    pub both_ways: bool,
    /// When it is over.
    pub limit: Limit,
    /// How much goes before, uncounted.
    pub warm_up: Limit,
    /// Whether the bytes that arrived are compared with those that were sent.
    pub verify: bool,
    /// Unreliable datagrams instead of reliable connections (RDMA only).
    pub datagrams: bool,
    /// The RDMA device of the end that asks; none: chosen.
    pub device: Option<String>,
    /// The RDMA device of the end that serves; none: chosen.
    pub peer_device: Option<String>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Bytes a second, many operations in flight.
    #[serde(rename = "bw")]
    Bandwidth,
    /// How long one takes.
    #[serde(rename = "lat")]
    Latency,
    /// Operations a second, many in flight.
    Rate,
}

/// By what it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Into the peer's memory.
    Write,
    /// Out of the peer's memory.
    Read,
    /// Messages.
    Send,
    /// Fetch and add, eight bytes.
    Atomic,
}

/// Over what it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Shared memory, within one host.
    Shm,
    /// RDMA.
    Verbs,
    /// A provider of libfabric.
    Ofi,
    /// TCP.
    Tcp,
}

/// So many operations, or so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Operations.
    Count(u64),
    /// Milliseconds.
    Milliseconds(u64),
}

/// Why a plan is not run, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanError {
    /// It cannot be meant.
    Invalid(String),
    /// It needs more memory than is allowed.
    TooLarge(String),
}

impl Plan {
    /// A plan with what users of other programs expect where they say nothing: sixty-four in flight, two
    /// seconds after a short warm-up.
    pub fn new(test: Test, operation: Operation, transport: Transport, size: u64) -> Plan {
        Plan {
            test,
            operation,
            transport,
            size,
            depth: if test == Test::Latency { 1 } else { 64 },
            lanes: 1,
            rails: 1,
            both_ways: false,
            limit: Limit::Milliseconds(2000),
            warm_up: Limit::Milliseconds(200),
            verify: false,
            datagrams: false,
            device: None,
            peer_device: None,
        }
    }

    /// What cannot be meant, or cannot be done with so much memory at either end.
    pub fn check(&self, max_memory: u64) -> Result<(), PlanError> {
        let wrong = |text: &str| Err(PlanError::Invalid(text.to_owned()));
        match self {
            _ if self.size == 0 => return wrong("a size of 0 moves nothing: take 1 or more"),
            _ if self.depth == 0 || self.depth > MAX_DEPTH => {
                return wrong("operations in flight are 1 to 4096");
            }
            _ if self.lanes == 0 || self.rails == 0 || self.lanes * self.rails > MAX_LANES => {
                return wrong("there are 1 to 64 lanes, over all rails");
            }
            _ if self.test == Test::Latency && (self.depth > 1 || self.lanes * self.rails > 1) => {
                return wrong("a latency test has one operation in flight, on one lane");
            }
            _ if self.test == Test::Latency && self.both_ways => {
                return wrong("a latency test runs in both directions already");
            }
            _ if self.operation == Operation::Atomic && self.size != 8 => {
                return wrong("an atomic operation moves 8 bytes");
            }
            _ if self.test == Test::Latency
                && self.operation == Operation::Write
                && self.size < 8 =>
            {
                return wrong(
                    "the peer sees a write by its last 8 bytes: take a size of 8 or more",
                );
            }
            _ if self.datagrams && self.transport != Transport::Verbs => {
                return wrong("datagrams are RDMA's: take --transport verbs");
            }
            _ if self.datagrams && self.operation != Operation::Send => {
                return wrong("datagrams can only be sent: take --op send");
            }
            _ if self.limit.is_none() => return wrong("a measurement of no time tells nothing"),
            _ if self.limit.time() > LONGEST || self.warm_up.time() > LONGEST => {
                return wrong("a measurement is at most an hour long");
            }
            _ => {}
        }
        let needs = self.memory();
        if needs > max_memory {
            return Err(PlanError::TooLarge(format!(
                "a size of {} bytes needs {needs} bytes of memory at each end, and {max_memory} are allowed: take \
                 a smaller size, or give the end that serves more",
                self.size
            )));
        }
        Ok(())
    }

    /// How many places for messages each of the two memories has.
    pub fn slots(&self) -> usize {
        let fit = (WORKING_SET / self.stride()).max(1);
        u64::from(self.depth).min(fit) as usize
    }

    /// From one place to the next: whole cache lines.
    pub fn stride(&self) -> u64 {
        self.size.checked_next_multiple_of(64).unwrap_or(u64::MAX)
    }

    /// Bytes of the two memories at each end.
    fn memory(&self) -> u64 {
        self.stride().saturating_mul(2 * self.slots() as u64)
    }

    /// Whether the end that serves has something to do but to let its memory be used.
    pub fn is_conversation(&self) -> bool {
        self.test == Test::Latency && matches!(self.operation, Operation::Write | Operation::Send)
    }
}

impl Limit {
    fn is_none(self) -> bool {
        matches!(self, Limit::Count(0) | Limit::Milliseconds(0))
    }

    /// How long, if it is a time.
    pub fn time(self) -> Duration {
        match self {
            Limit::Count(_) => Duration::ZERO,
            Limit::Milliseconds(milliseconds) => Duration::from_millis(milliseconds),
        }
    }

    /// How much of it is done, from 0 to 1, for a progress display.
    pub fn part(self, operations: u64, elapsed: Duration) -> f64 {
        let part = match self {
            Limit::Count(count) => operations as f64 / count as f64,
            Limit::Milliseconds(_) => elapsed.as_secs_f64() / self.time().as_secs_f64(),
        };
        part.clamp(0.0, 1.0)
    }
}

impl Transport {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Shm => "shm",
            Transport::Verbs => "verbs",
            Transport::Ofi => "ofi",
            Transport::Tcp => "tcp",
        }
    }
}

impl Test {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Test::Bandwidth => "bw",
            Test::Latency => "lat",
            Test::Rate => "rate",
        }
    }
}

impl Operation {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Write => "write",
            Operation::Read => "read",
            Operation::Send => "send",
            Operation::Atomic => "atomic",
        }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Invalid(text) | PlanError::TooLarge(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for PlanError {}

const MAX_DEPTH: u32 = 4096;
const MAX_LANES: u32 = 64;
const LONGEST: Duration = Duration::from_secs(3600);
/// What many operations in flight are spread over. More than caches hold, so that memory is part of what is measured.
const WORKING_SET: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(size: u64) -> Plan {
        Plan::new(Test::Bandwidth, Operation::Write, Transport::Tcp, size)
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        let most = 1 << 30;
        plan(4096).check(most).expect("an ordinary plan");
        let wrong = [
            Plan { size: 0, ..plan(1) },
            Plan { depth: 0, ..plan(1) },
            Plan { lanes: 33, rails: 2, ..plan(1) },
            Plan { test: Test::Latency, ..plan(8) },
            Plan { operation: Operation::Atomic, ..plan(16) },
            Plan { datagrams: true, operation: Operation::Send, ..plan(8) },
            Plan { limit: Limit::Count(0), ..plan(8) },
            Plan { limit: Limit::Milliseconds(3_600_001), ..plan(8) },
        ];
        for plan in wrong {
            assert!(matches!(plan.check(most), Err(PlanError::Invalid(_))), "{plan:?}");
        }
        assert!(matches!(plan(1 << 40).check(most), Err(PlanError::TooLarge(_))));
        assert!(plan(u64::MAX - 100).check(most).is_err());
    }

    #[test]
    fn many_in_flight_share_places_when_they_are_long() {
        assert_eq!(plan(64).slots(), 64);
        assert_eq!(plan(16 << 20).slots(), 4);
        assert_eq!(plan(1 << 30).slots(), 1);
    }
}
