//! How long small messages take to a peer and back, all the time.
//!
//! They go over a link as `connect` measures it, to the measuring service of a `serve`. A link loses nothing: lost is here
//! what was not answered in time. The probe has a thread of its own, so that a driver or resolver that hangs holds up
//! nothing but itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use doctor::watch::Probe;
use fabric::link::{Endpoint, Link, Settings};
use fabric::{Completion, Lane, Memory, Op, Pages, Region, Rights, wait};
use kv_proto::wire::ClientHello;

use crate::arguments::peer::Peer;
use crate::commands::connect;
use crate::links::ticket::Tickets;
use crate::output::Failure;

/// Whom to probe, and as whom.
pub(super) struct Plan {
    pub(super) peer: Peer,
    pub(super) links: Settings,
    pub(super) tickets: Option<Tickets>,
}

/// What the probe has found since it was last asked.
#[derive(Debug)]
pub(super) struct Prober {
    peer: String,
    tally: Shared,
    thread: Thread,
}

#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Tally>>);

#[derive(Debug, Default)]
struct Tally {
    paused: bool,
    lane: Option<String>,
    why: Option<String>,
    sent: u64,
    lost: u64,
    times_ns: Vec<u64>,
    /// The last one of before.
    last_ns: Option<u64>,
}

impl Prober {
    /// Begins, and goes on for the life of the program.
    pub(super) fn start(plan: Plan) -> Result<Prober, Failure> {
        let (peer, tally) = (plan.peer.to_string(), Shared::default());
        let told = tally.clone();
        let thread = std::thread::Builder::new().name("wirelane-probe".to_owned());
        let thread = thread.spawn(move || told.probe(plan));
        let thread = thread.map_err(|error| Failure::failed(format!("start a thread: {error}")))?;
        Ok(Prober { peer, tally, thread: thread.thread().clone() })
    }

    /// What came since it was asked before.
    pub(super) fn take(&self) -> Probe {
        let mut tally = self.tally.lock();
        let probe = tally.probe(&self.peer);
        tally.begin_anew();
        probe
    }

    /// Sends nothing, until told to go on. The link ends meanwhile: it would need to be looked after.
    pub(super) fn pause(&self, pause: bool) {
        self.tally.lock().paused = pause;
        self.thread.unpark();
    }
}

impl Shared {
    fn probe(&self, plan: Plan) {
        let Plan { peer, links, tickets } = plan;
        let endpoint = match Endpoint::new(links) {
            Ok(endpoint) => endpoint,
            Err(error) => return self.gone(&error.to_string()),
        };
        loop {
            while self.lock().paused {
                std::thread::park();
            }
            let link = connect::try_addresses(&endpoint, &peer, tickets.as_ref(), PATIENCE);
            let ended = link.map_err(|failure| failure.to_string()).and_then(|link| {
                let lane = link.report().explain().lane.map(str::to_owned);
                let mut line = ProbeLink::open(link, &endpoint)?;
                self.found(lane);
                line.ask(|answered| self.count(answered))
            });
            if let Err(why) = ended {
                self.gone(&why);
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn found(&self, lane: Option<String>) {
        let mut tally = self.lock();
        (tally.lane, tally.why) = (lane, None);
    }

    fn gone(&self, why: &str) {
        let mut tally = self.lock();
        (tally.lane, tally.why) = (None, Some(doctor::one_line(why)));
    }

    /// Counts one, and says whether to go on.
    fn count(&self, answered: Option<Duration>) -> bool {
        let mut tally = self.lock();
        tally.sent += 1;
        match answered {
            None => tally.lost += 1,
            Some(time) if tally.times_ns.len() < MAX => {
                tally.times_ns.push(time.as_nanos() as u64);
            }
            // Nobody has asked for long: what came first stays.
            Some(_) => {}
        }
        !tally.paused
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    fn probe(&self, peer: &str) -> Probe {
        let mut sorted = self.times_ns.clone();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let last = sorted.len().checked_sub(1)?;
            Some(sorted[(last * percent).div_ceil(100)])
        };
        Probe {
            peer: peer.to_owned(),
            lane: self.lane.clone(),
            why: self.why.clone(),
            sent: self.sent,
            lost: self.lost,
            median_ns: at(50),
            p99_ns: at(99),
            jitter_ns: self.jitter(),
        }
    }

    /// How much one differs from the one before, on the average.
    fn jitter(&self) -> Option<u64> {
        let all: Vec<u64> = self.last_ns.iter().chain(&self.times_ns).copied().collect();
        let steps = all.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
        let count = all.len().checked_sub(1).filter(|count| *count > 0)?;
        Some(steps.sum::<u64>() / count as u64)
    }

    fn begin_anew(&mut self) {
        self.last_ns = self.times_ns.last().copied().or(self.last_ns);
        self.times_ns.clear();
        (self.sent, self.lost) = (0, 0);
    }
}

/// A link to the measuring service.
struct ProbeLink {
    link: Link,
    region: Region,
    /// Whether an answer is still to come.
    waiting: bool,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
}

impl ProbeLink {
    fn open(link: Link, endpoint: &Endpoint) -> Result<ProbeLink, String> {
        let told = |error: fabric::Error| error.to_string();
        let memory = Memory::allocate(2 * ROOM, Pages::Plain).map_err(told)?;
        let region = endpoint.register(&memory, Rights::NONE).map_err(told)?;
        let (ops, done) = (VecDeque::new(), Vec::new());
        let mut line = ProbeLink { link, region, waiting: false, ops, done };
        let opening = ClientHello::Measure.to_bytes();
        line.region.memory().write(0, &opening);
        match line.there_and_back(opening.len(), PATIENCE)? {
            Some(_) => Ok(line),
            None => Err("the peer does not answer on the link".to_owned()),
        }
    }

    /// One after the other, until `tell` has enough. That the link ends is an error.
    fn ask(&mut self, tell: impl Fn(Option<Duration>) -> bool) -> Result<(), String> {
        loop {
            let late = self.waiting;
            let answered = self.there_and_back(SMALL, TOO_LATE)?;
            if !tell(answered.filter(|_| !late)) {
                return Ok(());
            }
            std::thread::sleep(PACE);
        }
    }

    /// Sends, unless the answer of before has not come yet, and waits for the answer.
    fn there_and_back(
        &mut self,
        length: usize,
        limit: Duration,
    ) -> Result<Option<Duration>, String> {
        let begun = Instant::now();
        if !self.waiting {
            self.ops.push_back(Op::receive(ANSWER, self.region.slice(ROOM..)));
            self.ops.push_back(Op::send(0, self.region.slice(..length)));
            self.waiting = true;
        }
        loop {
            self.link.post(&mut self.ops);
            wait(&mut self.link, &mut self.done, limit.saturating_sub(begun.elapsed()));
            for completion in self.done.drain(..) {
                completion.outcome.map_err(|failure| format!("the link ended: {failure}"))?;
                self.waiting &= completion.token != ANSWER;
            }
            match begun.elapsed() {
                time if !self.waiting => return Ok(Some(time)),
                time if time >= limit => return Ok(None),
                _ => {}
            }
        }
    }
}

/// Tells the answer's receive from the send.
const ANSWER: u64 = 1;
/// Room for a message.
const ROOM: usize = 4 << 10;
/// A message, as `connect` measures.
const SMALL: usize = 64;
/// Between two messages.
const PACE: Duration = Duration::from_millis(10);
/// What takes longer counts as lost.
const TOO_LATE: Duration = Duration::from_millis(500);
/// How long making a link may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Before the next try.
const PAUSE: Duration = Duration::from_secs(1);
/// An hour of them.
const MAX: usize = 360_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_median_tail_and_jitter() {
        let mut tally = Tally { sent: 101, lost: 1, ..Tally::default() };
        tally.times_ns = (1..=100).rev().map(|number| number * 1000).collect();
        let probe = tally.probe("there");
        assert_eq!((probe.median_ns, probe.p99_ns), (Some(51_000), Some(100_000)));
        assert_eq!((probe.jitter_ns, probe.lost), (Some(1000), 1));
        tally.begin_anew();
        assert_eq!(tally.probe("there").median_ns, None, "nothing came since");
        tally.times_ns = vec![5000];
        assert_eq!(tally.probe("there").jitter_ns, Some(4000), "beside the last of before");
    }
}
