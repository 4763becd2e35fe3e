//! Continuously measures the round-trip time of small messages to a peer.
//!
//! Messages use a link, as in `connect`, to the measuring service of a `serve`. A link loses nothing: a message counts
//! as lost if it was not answered in time. The probe has its own thread, so that a driver or resolver that hangs blocks
//! nothing else.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use doctor::monitoring::Probe;
use fabric::link::{Endpoint, EndpointSettings, Link};
use fabric::{Completion, Lane, Memory, Op, Pages, Region, Rights, wait};
use kv_proto::wire::ClientHello;

use crate::arguments::peer::Peer;
use crate::commands::connect;
use crate::links::ticket::Tickets;
use crate::output::Failure;

/// The peer, and the settings and credentials for it.
pub(super) struct ProbeTarget {
    pub(super) peer: Peer,
    pub(super) links: EndpointSettings,
    pub(super) tickets: Option<Tickets>,
}

/// Probes a peer, and counts results until they are taken.
#[derive(Debug)]
pub(super) struct Prober {
    peer: String,
    stats: SharedStats,
    thread: Thread,
}

#[derive(Debug, Clone, Default)]
struct SharedStats(Arc<Mutex<ProbeStats>>);

#[derive(Debug, Default)]
struct ProbeStats {
    paused: bool,
    transport: Option<String>,
    why: Option<String>,
    sent: u64,
    lost: u64,
    times_ns: Vec<u64>,
    /// The last time of the previous interval.
    last_ns: Option<u64>,
}

impl Prober {
    /// Starts a thread that runs until the process ends.
    pub(super) fn start(target: ProbeTarget) -> Result<Prober, Failure> {
        let (peer, stats) = (target.peer.to_string(), SharedStats::default());
        let shared = stats.clone();
        let thread = std::thread::Builder::new().name("wirelane-probe".to_owned());
        let thread = thread.spawn(move || shared.probe(target));
        let thread = thread.map_err(|error| Failure::failed(format!("start a thread: {error}")))?;
        Ok(Prober { peer, stats, thread: thread.thread().clone() })
    }

    /// The results since the last call.
    pub(super) fn take(&self) -> Probe {
        let mut stats = self.stats.lock();
        let probe = stats.probe(&self.peer);
        stats.reset();
        probe
    }

    /// Pauses or resumes. The link is closed while paused: it would need to be polled.
    pub(super) fn pause(&self, pause: bool) {
        self.stats.lock().paused = pause;
        self.thread.unpark();
    }
}

impl SharedStats {
    fn probe(&self, target: ProbeTarget) {
        let ProbeTarget { peer, links, tickets } = target;
        let endpoint = match Endpoint::new(links) {
            Ok(endpoint) => endpoint,
            Err(error) => return self.disconnected(&error.to_string()),
        };
        loop {
            while self.lock().paused {
                std::thread::park();
            }
            let link = connect::try_addresses(&endpoint, &peer, tickets.as_ref(), CONNECT_TIMEOUT);
            let ended = link.map_err(|failure| failure.to_string()).and_then(|link| {
                let transport = link.report().status().transport.map(str::to_owned);
                let mut link = ProbeLink::open(link, &endpoint)?;
                self.connected(transport);
                link.run(|answered| self.count(answered))
            });
            if let Err(why) = ended {
                self.disconnected(&why);
                std::thread::sleep(RECONNECT_PAUSE);
            }
        }
    }

    fn connected(&self, transport: Option<String>) {
        let mut stats = self.lock();
        (stats.transport, stats.why) = (transport, None);
    }

    fn disconnected(&self, why: &str) {
        let mut stats = self.lock();
        (stats.transport, stats.why) = (None, Some(doctor::one_line(why)));
    }

    /// Counts a message; returns false if paused.
    fn count(&self, answered: Option<Duration>) -> bool {
        let mut stats = self.lock();
        stats.sent += 1;
        match answered {
            None => stats.lost += 1,
            Some(time) if stats.times_ns.len() < MAX_SAMPLES => {
                stats.times_ns.push(time.as_nanos() as u64);
            }
            // Not taken for long: keep the first samples.
            Some(_) => {}
        }
        !stats.paused
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ProbeStats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProbeStats {
    fn probe(&self, peer: &str) -> Probe {
        let mut sorted = self.times_ns.clone();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let last = sorted.len().checked_sub(1)?;
            Some(sorted[(last * percent).div_ceil(100)])
        };
        Probe {
            peer: peer.to_owned(),
            transport: self.transport.clone(),
            why: self.why.clone(),
            sent: self.sent,
            lost: self.lost,
            p50_ns: at(50),
            p99_ns: at(99),
            jitter_ns: self.jitter(),
        }
    }

    /// Average difference between consecutive times.
    fn jitter(&self) -> Option<u64> {
        let all: Vec<u64> = self.last_ns.iter().chain(&self.times_ns).copied().collect();
        let steps = all.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
        let count = all.len().checked_sub(1).filter(|count| *count > 0)?;
        Some(steps.sum::<u64>() / count as u64)
    }

    fn reset(&mut self) {
        self.last_ns = self.times_ns.last().copied().or(self.last_ns);
        self.times_ns.clear();
        (self.sent, self.lost) = (0, 0);
    }
}

/// A link to the measuring service.
struct ProbeLink {
    link: Link,
    region: Region,
    /// Whether an answer is outstanding.
    waiting: bool,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
}

impl ProbeLink {
    fn open(link: Link, endpoint: &Endpoint) -> Result<ProbeLink, String> {
        let message = |error: fabric::Error| error.to_string();
        let memory = Memory::allocate(2 * MESSAGE_CAPACITY, Pages::Plain).map_err(message)?;
        let region = endpoint.register(&memory, Rights::NONE).map_err(message)?;
        let (ops, done) = (VecDeque::new(), Vec::new());
        let mut probe = ProbeLink { link, region, waiting: false, ops, done };
        let opening = ClientHello::Measure.to_bytes();
        probe.region.memory().write(0, &opening);
        match probe.round_trip(opening.len(), CONNECT_TIMEOUT)? {
            Some(_) => Ok(probe),
            None => Err("the peer does not answer on the link".to_owned()),
        }
    }

    /// Sends messages in sequence, until `count` returns false. An error if the link ends.
    fn run(&mut self, count: impl Fn(Option<Duration>) -> bool) -> Result<(), String> {
        loop {
            let is_late = self.waiting;
            let answered = self.round_trip(MESSAGE_BYTES, ANSWER_TIMEOUT)?;
            if !count(answered.filter(|_| !is_late)) {
                return Ok(());
            }
            std::thread::sleep(MESSAGE_INTERVAL);
        }
    }

    /// Sends a message, unless an answer is outstanding, and waits for the answer.
    fn round_trip(&mut self, length: usize, limit: Duration) -> Result<Option<Duration>, String> {
        let started = Instant::now();
        if !self.waiting {
            self.ops.push_back(Op::receive(ANSWER_OP_ID, self.region.slice(MESSAGE_CAPACITY..)));
            self.ops.push_back(Op::send(0, self.region.slice(..length)));
            self.waiting = true;
        }
        loop {
            self.link.post(&mut self.ops);
            wait(&mut self.link, &mut self.done, limit.saturating_sub(started.elapsed()));
            for completion in self.done.drain(..) {
                completion.outcome.map_err(|failure| format!("the link ended: {failure}"))?;
                self.waiting &= completion.op_id != ANSWER_OP_ID;
            }
            match started.elapsed() {
                time if !self.waiting => return Ok(Some(time)),
                time if time >= limit => return Ok(None),
                _ => {}
            }
        }
    }
}

/// The `op_id` of the answer's receive; the send has 0.
const ANSWER_OP_ID: u64 = 1;
/// Space for one message.
const MESSAGE_CAPACITY: usize = 4 << 10;
/// The size of a message, as in `connect`.
const MESSAGE_BYTES: usize = 64;
/// Pause between two messages.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(10);
/// A message without an answer after this counts as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// Time to open a link.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before the next attempt to connect.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// One hour.
const MAX_SAMPLES: usize = 360_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_have_median_p99_and_jitter() {
        let mut stats = ProbeStats { sent: 101, lost: 1, ..ProbeStats::default() };
        stats.times_ns = (1..=100).rev().map(|number| number * 1000).collect();
        let probe = stats.probe("there");
        assert_eq!((probe.p50_ns, probe.p99_ns), (Some(51_000), Some(100_000)));
        assert_eq!((probe.jitter_ns, probe.lost), (Some(1000), 1));
        stats.reset();
        assert_eq!(stats.probe("there").p50_ns, None, "no samples since the reset");
        stats.times_ns = vec![5000];
        assert_eq!(stats.probe("there").jitter_ns, Some(4000), "relative to the last one before");
    }
}
