//! What to measure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Error;

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
    /// Operations under way on each lane; a latency test has one.
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
    /// Bytes a second, many operations under way.
    #[serde(rename = "bw")]
    Bandwidth,
    /// How long one takes.
    #[serde(rename = "lat")]
    Latency,
    /// Operations a second, many under way.
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

impl Plan {
    /// A plan with what users of other programs expect where they say nothing: sixty-four under way, two
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
    pub fn check(&self, most_memory: u64) -> Result<(), Error> {
        let wrong = |text: &str| Err(Error::misuse(text));
        match self {
            _ if self.size == 0 => return wrong("a size of 0 moves nothing: take 1 or more"),
            _ if self.depth == 0 || self.depth > MOST_DEPTH => {
                return wrong("operations under way are 1 to 4096");
            }
            _ if self.lanes == 0 || self.rails == 0 || self.lanes * self.rails > MOST_LANES => {
                return wrong("there are 1 to 64 lanes, over all rails");
            }
            _ if self.test == Test::Latency && (self.depth > 1 || self.lanes * self.rails > 1) => {
                return wrong("a latency test has one operation under way, on one lane");
            }
            _ if self.test == Test::Latency && self.both_ways => {
                return wrong("a latency test goes both ways already");
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
        if needs > most_memory {
            return Err(Error::refused(format!(
                "a size of {} bytes needs {needs} bytes of memory at each end, and {most_memory} are allowed: take \
                 a smaller size, or give the end that serves more",
                self.size
            )));
        }
        Ok(())
    }

    /// How many places for messages each of the two memories has.
    pub(crate) fn slots(&self) -> usize {
        let fit = (WORKING_SET / self.stride()).max(1);
        u64::from(self.depth).min(fit) as usize
    }

    /// From one place to the next: whole cache lines.
    pub(crate) fn stride(&self) -> u64 {
        self.size.checked_next_multiple_of(64).unwrap_or(u64::MAX)
    }

    /// Bytes of the two memories at each end.
    fn memory(&self) -> u64 {
        self.stride().saturating_mul(2 * self.slots() as u64)
    }

    /// Whether the end that serves has something to do but to let its memory be used.
    pub(crate) fn is_conversation(&self) -> bool {
        self.test == Test::Latency && matches!(self.operation, Operation::Write | Operation::Send)
    }
}

impl Limit {
    fn is_none(self) -> bool {
        matches!(self, Limit::Count(0) | Limit::Milliseconds(0))
    }

    /// How long, if it is a time.
    pub(crate) fn time(self) -> Duration {
        match self {
            Limit::Count(_) => Duration::ZERO,
            Limit::Milliseconds(milliseconds) => Duration::from_millis(milliseconds),
        }
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

const MOST_DEPTH: u32 = 4096;
const MOST_LANES: u32 = 64;
const LONGEST: Duration = Duration::from_secs(3600);
/// What many operations under way are spread over. More than caches hold, so that memory is part of what is measured.
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
            assert_eq!(
                plan.check(most).map_err(|error| error.kind),
                Err(crate::Kind::Misuse),
                "{plan:?}"
            );
        }
        let large = plan(1 << 40).check(most).expect_err("too large");
        assert_eq!(large.kind, crate::Kind::Refused);
        assert!(plan(u64::MAX - 100).check(most).is_err());
    }

    #[test]
    fn many_under_way_share_places_when_they_are_long() {
        assert_eq!(plan(64).slots(), 64);
        assert_eq!(plan(16 << 20).slots(), 4);
        assert_eq!(plan(1 << 30).slots(), 1);
    }
}
