//! Two ends of a link.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, Link, Listener, Settings};
use fabric::{Completion, Done, Lane, Memory, Op, Pages, Region, Rights, Window};

pub struct Two {
    pub dialler: Link,
    pub listener: Listener,
    pub acceptor: Link,
    pub ends: [Endpoint; 2],
}

pub fn settings() -> Settings {
    Settings::default()
}

pub const LIMIT: Duration = Duration::from_secs(20);

impl Two {
    pub fn new(dials: Settings, accepts: Settings) -> Self {
        let ends = [Endpoint::new(dials).unwrap(), Endpoint::new(accepts).unwrap()];
        let listener = ends[1].listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address();
        let (dialler, acceptor) = std::thread::scope(|scope| {
            let dialler = scope.spawn(|| ends[0].connect(address, LIMIT).unwrap());
            let mut acceptor = listener.accept(LIMIT).unwrap().unwrap();
            while !dialler.is_finished() {
                fabric::wait(&mut acceptor, &mut Vec::new(), Duration::from_millis(1));
            }
            (dialler.join().unwrap(), acceptor)
        });
        Two { dialler, listener, acceptor, ends }
    }

    pub fn lane(&self) -> &'static str {
        self.dialler.report().explain().lane.unwrap()
    }

    pub fn region(&self, end: usize, length: usize, rights: Rights) -> Region {
        let memory = Memory::allocate(length, Pages::Plain).unwrap();
        self.ends[end].register(&memory, rights).unwrap()
    }

    /// Lets the dialling end use a region of the accepting end's.
    pub fn grant(&mut self, region: &Region) -> Window {
        let remote = self.acceptor.grant(region).unwrap();
        self.dialler.import(&remote).unwrap()
    }

    /// Works at both ends until the dialling one has so many completions, and the accepting one so many.
    pub fn run(&mut self, dialler: usize, acceptor: usize) -> [Vec<Completion>; 2] {
        let begun = Instant::now();
        let mut done = [Vec::new(), Vec::new()];
        while done[0].len() < dialler || done[1].len() < acceptor {
            assert!(begun.elapsed() < LIMIT, "{:#?}", self.dialler.report().explain());
            self.dialler.poll(&mut done[0]);
            self.acceptor.poll(&mut done[1]);
        }
        done
    }

    /// One of everything.
    pub fn exercise(mut self) {
        let there = self.region(1, 8 << 20, Rights::ALL);
        let here = self.region(0, 8 << 20, Rights::NONE);
        let window = self.grant(&there);
        let bytes: Vec<u8> = (0..8 << 20).map(|at: u32| (at % 251) as u8).collect();
        here.memory().write(0, &bytes);
        self.dialler.post(&mut VecDeque::from([Op::write(1, here.slice(..), window.at(0))]));
        let [done, _] = self.run(1, 0);
        assert_eq!(done[0].outcome, Ok(Done::Placed));
        assert_eq!(there.slice(..).to_vec(), bytes, "8 MiB in pieces");

        self.acceptor.post(&mut VecDeque::from([
            Op::receive(10, self.region(1, 64, Rights::NONE).slice(..)),
            Op::receive(11, self.region(1, 1 << 20, Rights::NONE).slice(..)),
        ]));
        self.dialler.post(&mut VecDeque::from([
            Op::write_imm(2, here.slice(5..10), window.at(100), 77),
            Op::send(3, here.slice(..1 << 20)),
            Op {
                token: 4,
                work: fabric::Work::FetchAdd { old: here.slice(..8), at: window.at(0), add: 5 },
            },
        ]));
        let [done, received] = self.run(3, 2);
        assert!(done.iter().all(|completion| completion.outcome.is_ok()), "{done:?}");
        assert_eq!(received[0].outcome, Ok(Done::Received { length: 5, imm: Some(77) }));
        assert_eq!(received[1].outcome, Ok(Done::Received { length: 1 << 20, imm: None }));
        let message = match &received[1].work {
            fabric::Work::Receive { into } => into.as_slice()[0].to_vec(),
            other => panic!("{other:?}"),
        };
        assert_eq!(message, bytes[..1 << 20], "1 MiB in parts");
        assert_eq!(there.slice(100..105).to_vec(), bytes[5..10]);

        self.dialler.post(&mut VecDeque::from([Op::read(5, here.slice(..4096), window.at(4096))]));
        let [done, _] = self.run(1, 0);
        assert_eq!(done[0].outcome, Ok(Done::Placed));
        assert_eq!(here.slice(..4096).to_vec(), bytes[4096..8192]);
    }
}
