//! The local end of a link to the other process.

use std::collections::VecDeque;
use std::process::Command;
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, EventKind, Link};
use fabric::{
    Completion, Done, Failure, Lane, Memory, Op, Pages, Region, RemoteRegion, Rights, Slice,
    Window, Work,
};

use crate::peer::{Pattern, Peer, settings};

pub(crate) struct LocalEnd {
    pub(crate) endpoint: Endpoint,
    pub(crate) link: Link,
    pub(crate) source: Region,
    outbound: Region,
    /// The region that the other process granted, and memory for the old value of atomic operations.
    pub(crate) remote: RemoteRegion,
    pub(crate) old: Slice,
    pub(crate) window: Window,
    todo: VecDeque<Op>,
    /// Outcomes of operations other than receives.
    pub(crate) done: Vec<(u64, Result<Done, Failure>)>,
    answers: VecDeque<Vec<u8>>,
    pub(crate) in_flight: usize,
}

pub(crate) const LIMIT: Duration = Duration::from_secs(120);

impl LocalEnd {
    pub(crate) fn connect(peer: &Peer, size: usize) -> Self {
        let endpoint = Endpoint::new(settings(["rxe0", "rxe2"])).unwrap();
        Self::connect_by(endpoint, peer, size)
    }

    pub(crate) fn connect_by(endpoint: Endpoint, peer: &Peer, size: usize) -> Self {
        let region = |length| {
            endpoint
                .register(&Memory::allocate(length, Pages::Plain).unwrap(), Rights::NONE)
                .unwrap()
        };
        let (source, outbound) = (region(size), region(1 << 16));
        let mut link = endpoint.connect(peer.address, LIMIT).unwrap();
        let mut todo = VecDeque::from([Op::receive(RECEIVE, outbound.slice(..64))]);
        let mut done = Vec::new();
        while done.is_empty() {
            link.post(&mut todo);
            fabric::wait(&mut link, &mut done, LIMIT);
        }
        let remote = RemoteRegion::from_bytes(&outbound.slice(..36).to_vec()).unwrap();
        let window = link.import(&remote).unwrap();
        let todo =
            (1..9).map(|at| Op::receive(RECEIVE, outbound.slice(at * 64..at * 64 + 64))).collect();
        let (done, answers) = (Vec::new(), VecDeque::new());
        let old = outbound.slice(1024..1032);
        LocalEnd {
            endpoint,
            link,
            source,
            outbound,
            remote,
            old,
            window,
            todo,
            done,
            answers,
            in_flight: 0,
        }
    }

    /// Fills the source with the pattern of a seed.
    pub(crate) fn fill(&self, seed: u64) {
        let mut pattern = Pattern::new(seed);
        for number in 0..self.source.len() >> 20 {
            self.source.memory().write(number << 20, pattern.mib(number));
        }
    }

    pub(crate) fn post(&mut self, ops: impl IntoIterator<Item = Op>) {
        for op in ops {
            self.in_flight += 1;
            self.todo.push_back(op);
        }
        self.step(Duration::ZERO);
    }

    /// Posts and polls once.
    pub(crate) fn step(&mut self, limit: Duration) {
        self.link.post(&mut self.todo);
        let mut done = Vec::new();
        fabric::wait(&mut self.link, &mut done, limit);
        for Completion { op_id, outcome, work } in done {
            match (work, outcome) {
                (Work::Receive { into }, Ok(Done::Received { length, .. })) => {
                    let slice = into.as_slice()[0].clone();
                    self.answers.push_back(slice.to_vec()[..length].to_vec());
                    self.todo.push_back(Op::receive(RECEIVE, slice));
                }
                (Work::Receive { .. }, _) => {}
                (_, outcome) => {
                    self.in_flight -= 1;
                    self.done.push((op_id, outcome));
                }
            }
        }
    }

    /// Works until the condition is true.
    pub(crate) fn until(&mut self, what: &str, mut condition: impl FnMut(&mut LocalEnd) -> bool) {
        let started = Instant::now();
        while !condition(self) {
            let status = self.link.report().status();
            assert!(started.elapsed() < LIMIT, "{what} took too long: {status:#?}");
            assert!(self.link.ended().is_none(), "{what}: {:?}", self.link.ended());
            self.step(Duration::from_millis(20));
        }
    }

    pub(crate) fn finish(&mut self) {
        self.until("finishing", |local| local.in_flight == 0);
        for (op_id, outcome) in self.done.drain(..) {
            assert!(outcome.is_ok(), "{op_id}: {outcome:?}");
        }
    }

    /// Sends a request to the other process, and waits for the answer.
    pub(crate) fn ask(&mut self, what: &[u8; 8], words: &[u64]) -> Vec<u64> {
        let bytes: Vec<u8> =
            what.iter().copied().chain(words.iter().flat_map(|word| word.to_le_bytes())).collect();
        self.outbound.memory().write(4096, &bytes);
        self.post([Op::send(0, self.outbound.slice(4096..4096 + bytes.len()))]);
        self.until("an answer", |local| !local.answers.is_empty());
        let answer = self.answers.pop_front().unwrap();
        answer.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }

    /// Sends a numbered message, which must arrive in order.
    pub(crate) fn number(&mut self, number: u64) {
        let begin = 8192 + (number as usize % 512) * 64;
        self.outbound.memory().write(begin, b"number: ");
        self.outbound.memory().write(begin + 8, &number.to_le_bytes());
        self.post([Op::send(number, self.outbound.slice(begin..begin + 16))]);
    }

    /// Checks that some MiB of the other process's region have the pattern of a seed.
    pub(crate) fn verify(&mut self, seed: u64, first: usize, count: usize) {
        let wrong = self.ask(b"wrong:  ", &[seed, first as u64, count as u64])[0];
        assert_eq!(wrong, 0, "of {count} MiB from {first} on");
    }

    pub(crate) fn transport(&self) -> &'static str {
        self.link.report().status().transport.unwrap_or("none")
    }

    pub(crate) fn in_use(&self) -> Vec<String> {
        let rails = self.link.report().status().rails;
        rails.into_iter().filter(|rail| rail.in_use).map(|rail| rail.name).collect()
    }

    pub(crate) fn events(&self, what: EventKind) -> Vec<String> {
        let events = self.link.report().status().events.into_iter();
        let events = events.filter(|event| event.what == what);
        events.map(|event| format!("{} because {}", event.rail, event.why)).collect()
    }
}

const RECEIVE: u64 = u64::MAX;

pub(crate) fn wire(arguments: &str) {
    shell(&format!("wire {arguments}"));
}

/// Resets both wires after an earlier test.
pub(crate) fn repair_all() {
    wire("repair 0");
    wire("repair 1");
}

pub(crate) fn shell(script: &str) {
    let status = Command::new("sh").args(["-ec", script]).status();
    assert!(status.expect("sh runs").success(), "{script}");
}
