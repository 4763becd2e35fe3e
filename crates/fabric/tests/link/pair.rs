//! Two ends of a link in one process.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, EndpointSettings, Link, Listener, Transport};
use fabric::{Completion, Done, Lane, Memory, Op, Pages, Region, Rights, Window, Work};

pub(crate) struct LinkPair {
    pub(crate) initiator: Link,
    pub(crate) listener: Listener,
    pub(crate) accepted: Link,
    pub(crate) ends: [Endpoint; 2],
}

/// Without RDMA, whether this machine has it or not.
pub(crate) fn settings() -> EndpointSettings {
    EndpointSettings { library: "no-such-libibverbs.so".into(), ..EndpointSettings::default() }
}

pub(crate) fn only(transports: &[Transport]) -> EndpointSettings {
    EndpointSettings { transports: transports.to_vec(), ..settings() }
}

/// Longer than any test here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

impl LinkPair {
    pub(crate) fn new(dials: EndpointSettings, accepts: EndpointSettings) -> Self {
        let ends = [Endpoint::new(dials).unwrap(), Endpoint::new(accepts).unwrap()];
        let listener = ends[1].listen(anywhere()).unwrap();
        let (initiator, accepted) = join(&ends[0], &listener);
        LinkPair { initiator, listener, accepted, ends }
    }

    /// Both ends with a single transport.
    pub(crate) fn over(transport: Transport) -> Self {
        let pair = LinkPair::new(only(&[transport]), only(&[transport]));
        assert_eq!(pair.transport(), transport.name());
        pair
    }

    pub(crate) fn transport(&self) -> &'static str {
        self.initiator.report().status().transport.unwrap()
    }

    /// Polls both ends until the link uses this transport: on a busy machine a worse one may be up first.
    pub(crate) fn until_transport(&mut self, expected: &str) {
        let started = Instant::now();
        while self.transport() != expected {
            assert!(started.elapsed() < LIMIT, "{:#?}", self.initiator.report().status());
            self.initiator.poll(&mut Vec::new());
            self.accepted.poll(&mut Vec::new());
        }
    }

    pub(crate) fn region(&self, end: usize, length: usize, rights: Rights) -> Region {
        region(&self.ends[end], length, rights)
    }

    /// Grants a region of the listener to the initiator.
    pub(crate) fn grant(&mut self, region: &Region) -> Window {
        let remote = self.accepted.grant(region).unwrap();
        self.initiator.import(&remote).unwrap()
    }

    /// Polls both ends until they have these numbers of completions.
    pub(crate) fn run(&mut self, initiator: usize, accepted: usize) -> [Vec<Completion>; 2] {
        let started = Instant::now();
        let mut done = [Vec::new(), Vec::new()];
        while done[0].len() < initiator || done[1].len() < accepted {
            assert!(started.elapsed() < LIMIT, "{:#?}", self.initiator.report().status());
            self.initiator.poll(&mut done[0]);
            self.accepted.poll(&mut done[1]);
        }
        done
    }

    /// Executes one operation at the initiator.
    pub(crate) fn do_one(&mut self, op: Op) -> Result<Done, fabric::Failure> {
        post(&mut self.initiator, [op]);
        let [mut done, _] = self.run(1, 0);
        done.remove(0).outcome
    }

    /// Executes every kind of operation.
    pub(crate) fn exercise(mut self) {
        let there = self.region(1, 8 << 20, Rights::ALL);
        let here = self.region(0, 8 << 20, Rights::NONE);
        let window = self.grant(&there);
        let bytes: Vec<u8> = (0..8 << 20).map(|at: u32| (at % 251) as u8).collect();
        here.memory().write(0, &bytes);
        assert_eq!(self.do_one(Op::write(1, here.slice(..), window.at(0))), Ok(Done::Placed));
        assert_eq!(there.slice(..).to_vec(), bytes, "8 MiB in chunks");

        let receives = [10, 11]
            .map(|op_id| Op::receive(op_id, self.region(1, 1 << 20, Rights::NONE).slice(..)));
        post(&mut self.accepted, receives);
        let add = Work::FetchAdd { old: here.slice(..8), at: window.at(0), add: 5 };
        let sends = [
            Op::write_imm(2, here.slice(5..10), window.at(100), 77),
            Op::send(3, here.slice(8..8 + (1 << 20))),
            Op { op_id: 4, work: add },
        ];
        post(&mut self.initiator, sends);
        let [done, mut received] = self.run(3, 2);
        // Not every lane preserves the order of immediate data and a message.
        received.sort_by_key(|one| matches!(one.outcome, Ok(Done::Received { imm: None, .. })));
        assert!(done.iter().all(|completion| completion.outcome.is_ok()), "{done:?}");
        assert_eq!(received[0].outcome, Ok(Done::Received { length: 5, imm: Some(77) }));
        assert_eq!(received[1].outcome, Ok(Done::Received { length: 1 << 20, imm: None }));
        assert_eq!(message(&received[1]), bytes[8..8 + (1 << 20)], "1 MiB in parts");
        assert_eq!(there.slice(100..105).to_vec(), bytes[5..10]);

        let read = Op::read(5, here.slice(..4096), window.at(4096));
        assert_eq!(self.do_one(read), Ok(Done::Placed));
        assert_eq!(here.slice(..4096).to_vec(), bytes[4096..8192]);
    }
}

/// A port that the system chooses.
pub(crate) fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Connects pair ends.
pub(crate) fn join(endpoint: &Endpoint, listener: &Listener) -> (Link, Link) {
    let address = listener.address();
    std::thread::scope(|scope| {
        let initiator = scope.spawn(|| endpoint.connect(address, LIMIT).unwrap());
        let mut accepted = listener.accept(LIMIT).unwrap().unwrap();
        // The listener may learn a moment later that the rail is up.
        while !initiator.is_finished() || accepted.report().status().transport.is_none() {
            fabric::wait(&mut accepted, &mut Vec::new(), Duration::from_millis(1));
        }
        (initiator.join().unwrap(), accepted)
    })
}

pub(crate) fn region(endpoint: &Endpoint, length: usize, rights: Rights) -> Region {
    endpoint.register(&Memory::allocate(length, Pages::Plain).unwrap(), rights).unwrap()
}

/// Posts operations, all of which must be accepted.
pub(crate) fn post(link: &mut Link, ops: impl IntoIterator<Item = Op>) {
    let mut ops: VecDeque<Op> = ops.into_iter().collect();
    link.post(&mut ops);
    assert!(ops.is_empty(), "{} operations were not accepted", ops.len());
}

/// The message of a receive.
pub(crate) fn message(completion: &Completion) -> Vec<u8> {
    let Ok(Done::Received { length, .. }) = completion.outcome else { panic!("{completion:?}") };
    let Work::Receive { into } = &completion.work else { panic!("{completion:?}") };
    let mut bytes: Vec<u8> = into.as_slice().iter().flat_map(fabric::Slice::to_vec).collect();
    bytes.truncate(length);
    bytes
}
