//! The plan of a measurement.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One measurement. The server accepts it as it is, or refuses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Bandwidth, latency or rate.
    pub test: Test,
    /// The operation.
    pub operation: Operation,
    /// The transport.
    pub transport: Transport,
    /// Bytes of one operation.
    pub size: u64,
    /// Operations in flight on each lane; a latency test has one.
    pub depth: u32,
    /// Lanes on each rail: queue pairs, connections.
    pub lanes: u32,
    /// Maximum number of pairs of RDMA ports; other transports have one.
    pub rails: u32,
    /// Both ends send at the same time.
    pub both_ways: bool,
    /// When it ends.
    pub limit: Limit,
    /// Warm-up before it, not counted.
    pub warm_up: Limit,
    /// Whether received data is compared with sent data.
    pub verify: bool,
    /// Unreliable datagrams instead of reliable connections (RDMA only).
    pub datagrams: bool,
    /// RDMA device of the client; `None`: chosen automatically.
    pub device: Option<String>,
    /// RDMA device of the server; `None`: chosen automatically.
    pub peer_device: Option<String>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Bytes per second, many operations in flight.
    #[serde(rename = "bw")]
    Bandwidth,
    /// Time of one operation.
    #[serde(rename = "lat")]
    Latency,
    /// Operations per second, many in flight.
    Rate,
}

/// The operation that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Write to the peer's memory.
    Write,
    /// Read from the peer's memory.
    Read,
    /// Messages.
    Send,
    /// Fetch and add, eight bytes.
    Atomic,
}

/// The transport that is measured.
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

/// The end of a measurement: a number of operations, or a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Operations.
    Count(u64),
    /// Milliseconds.
    Milliseconds(u64),
}

/// Why a plan is refused, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanError {
    /// Its fields contradict each other, or are out of range.
    Invalid(String),
    /// It needs more memory than is allowed.
    TooLarge(String),
}

impl Plan {
    /// A plan with the usual defaults: 64 operations in flight, two seconds after a short warm-up.
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

    /// Checks the fields, and that it needs at most this much memory at each end.
    pub fn check(&self, max_memory: u64) -> Result<(), PlanError> {
        let wrong = |text: &str| Err(PlanError::Invalid(text.to_owned()));
        match self {
            _ if self.size == 0 => return wrong("size must be at least 1"),
            _ if self.depth == 0 || self.depth > MAX_DEPTH => {
                return wrong("operations in flight must be 1 to 4096");
            }
            _ if self.lanes == 0 || self.rails == 0 || self.lanes * self.rails > MAX_LANES => {
                return wrong("lanes must be 1 to 64, over all rails");
            }
            _ if self.test == Test::Latency && (self.depth > 1 || self.lanes * self.rails > 1) => {
                return wrong("a latency test has one operation in flight, on one lane");
            }
            _ if self.test == Test::Latency && self.both_ways => {
                return wrong("a latency test runs in both directions already");
            }
            _ if self.operation == Operation::Atomic && self.size != 8 => {
                return wrong("an atomic operation moves 8 bytes: use --size 8");
            }
            _ if self.test == Test::Latency
                && self.operation == Operation::Write
                && self.size < 8 =>
            {
                return wrong(
                    "the peer detects a write by its last 8 bytes: use a size of 8 or more",
                );
            }
            _ if self.datagrams && self.transport != Transport::Verbs => {
                return wrong("datagrams need RDMA: use --transport verbs");
            }
            _ if self.datagrams && self.operation != Operation::Send => {
                return wrong("datagrams can only be sent: use --op send");
            }
            _ if self.limit.is_zero() => return wrong("time and count must be more than 0"),
            _ if self.limit.time() > MAX_DURATION || self.warm_up.time() > MAX_DURATION => {
                return wrong("a measurement can take at most one hour");
            }
            _ => {}
        }
        let needs = self.memory();
        if needs > max_memory {
            return Err(PlanError::TooLarge(format!(
                "a size of {} bytes needs {needs} bytes of memory at each end, and {max_memory} are allowed: use \
                 a smaller size, or start the server with a larger --memory",
                self.size
            )));
        }
        Ok(())
    }

    /// Number of message slots in each of the two buffers.
    pub fn slots(&self) -> usize {
        let max = (WORKING_SET / self.stride()).max(1);
        u64::from(self.depth).min(max) as usize
    }

    /// Bytes from one slot to the next: whole cache lines.
    pub fn stride(&self) -> u64 {
        self.size.checked_next_multiple_of(64).unwrap_or(u64::MAX)
    }

    /// Bytes of the two buffers at each end.
    fn memory(&self) -> u64 {
        self.stride().saturating_mul(2 * self.slots() as u64)
    }

    /// Whether the server takes part in each operation, and does not only provide memory.
    pub fn is_ping_pong(&self) -> bool {
        self.test == Test::Latency && matches!(self.operation, Operation::Write | Operation::Send)
    }
}

impl Limit {
    fn is_zero(self) -> bool {
        matches!(self, Limit::Count(0) | Limit::Milliseconds(0))
    }

    /// The duration; zero if it is a count.
    pub fn time(self) -> Duration {
        match self {
            Limit::Count(_) => Duration::ZERO,
            Limit::Milliseconds(milliseconds) => Duration::from_millis(milliseconds),
        }
    }

    /// Progress, from 0 to 1.
    pub fn progress(self, operations: u64, elapsed: Duration) -> f64 {
        let progress = match self {
            Limit::Count(count) => operations as f64 / count as f64,
            Limit::Milliseconds(_) => elapsed.as_secs_f64() / self.time().as_secs_f64(),
        };
        progress.clamp(0.0, 1.0)
    }
}

impl Transport {
    /// Its name on the command line.
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
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Test::Bandwidth => "bw",
            Test::Latency => "lat",
            Test::Rate => "rate",
        }
    }
}

impl Operation {
    /// Its name on the command line.
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
const MAX_DURATION: Duration = Duration::from_secs(3600);
/// Memory that operations in flight are spread over. Larger than caches, so that memory accesses are measured too.
const WORKING_SET: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(size: u64) -> Plan {
        Plan::new(Test::Bandwidth, Operation::Write, Transport::Tcp, size)
    }

    #[test]
    fn invalid_plans_are_refused() {
        let max_memory = 1 << 30;
        plan(4096).check(max_memory).expect("an ordinary plan");
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
            assert!(matches!(plan.check(max_memory), Err(PlanError::Invalid(_))), "{plan:?}");
        }
        assert!(matches!(plan(1 << 40).check(max_memory), Err(PlanError::TooLarge(_))));
        assert!(plan(u64::MAX - 100).check(max_memory).is_err());
    }

    #[test]
    fn large_operations_share_slots() {
        assert_eq!(plan(64).slots(), 64);
        assert_eq!(plan(16 << 20).slots(), 4);
        assert_eq!(plan(1 << 30).slots(), 1);
    }
}
