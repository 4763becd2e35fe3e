//! Messages between two ends in one thread, for a tool that counts instructions: no end ever waits for the other.
//!
//! `instructions LANE WORK ROUNDS` exchanges ROUNDS times, each time from the first end to the second and back: a message
//! (`send`), a write with immediate data (`imm`), or a plain write (`write`). Only the function `counted_round` is to be counted.
//! Lanes: shm, tcp; and links over them: link-shm, link-tcp. `cargo xtask compare instructions` runs it.
#![allow(clippy::print_stdout, reason = "prints what it did")]

use std::collections::VecDeque;
use std::error::Error;
use std::thread;
use std::time::Duration;

use fabric::link::{Endpoint, EndpointSettings, Transport};
use fabric::{
    Completion, Done, Fabric, Lane, Memory, Op, Pages, Region, Rights, Side, Window, shm, tcp, wait,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [lane, work, rounds] = &args[..] else {
        return Err("usage: instructions LANE WORK ROUNDS".into());
    };
    let rounds: usize = rounds.parse()?;
    let work = match work.as_str() {
        "send" => Kind::Send,
        "imm" => Kind::WriteImm,
        "write" => Kind::Write,
        other => return Err(format!("unknown work {other}").into()),
    };
    let [mut first, mut second] = connect(lane)?;
    for end in [&mut first, &mut second] {
        (0..RECEIVES).for_each(|_| end.post_receive());
    }
    // Memory is allocated, and credits are at their usual level.
    for _ in 0..WARM_UP {
        pass(&mut first, &mut second, work);
        pass(&mut second, &mut first, work);
    }
    for _ in 0..rounds {
        counted_round(&mut first, &mut second, work);
    }
    println!("{rounds} exchanges");
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Send,
    WriteImm,
    Write,
}

/// What is counted.
#[inline(never)]
fn counted_round(first: &mut End, second: &mut End, work: Kind) {
    pass(first, second, work);
    pass(second, first, work);
}

/// From one end to the other. A message's completion comes with the next message back, as in a request and its answer.
fn pass(from: &mut End, to: &mut End, work: Kind) {
    from.post(work);
    if work == Kind::Write {
        while from.sent == 0 {
            from.poll();
            to.poll();
        }
    } else {
        to.poll();
        // The first messages wait until the sender knows of the receives.
        while to.received == 0 {
            from.poll();
            to.poll();
        }
        to.received -= 1;
        to.post_receive();
    }
    from.sent = 0;
}

/// One end, and its completions that were not looked at.
struct End {
    lane: Box<dyn Lane>,
    region: Region,
    window: Window,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    sent: usize,
    received: usize,
}

impl End {
    fn post(&mut self, work: Kind) {
        let from = self.region.slice(..BYTES);
        self.ops.push_back(match work {
            Kind::Send => Op::send(1, from),
            Kind::WriteImm => Op::write_imm(1, from, self.window.at(0), 7),
            Kind::Write => Op::write(1, from, self.window.at(0)),
        });
        self.flush();
    }

    fn post_receive(&mut self) {
        self.ops.push_back(Op::receive(2, self.region.slice(BYTES..2 * BYTES)));
        self.flush();
    }

    fn flush(&mut self) {
        while !self.ops.is_empty() {
            self.lane.post(&mut self.ops);
        }
    }

    fn poll(&mut self) {
        self.lane.poll(&mut self.done);
        for completion in self.done.drain(..) {
            match completion.outcome.expect("it succeeds") {
                Done::Received { .. } => self.received += 1,
                _ => self.sent += 1,
            }
        }
    }
}

/// Two connected ends, each with a window of the other's memory.
fn connect(lane: &str) -> Outcome<[End; 2]> {
    let mut ends = match lane.strip_prefix("link-") {
        Some(transport) => connect_links(transport)?,
        None if lane == "tcp" => connect_lanes(&tcp::Tcp::default())?,
        None => connect_lanes(&shm::Shm::default())?,
    };
    let [first, second] = &mut ends;
    let grants = [first.0.grant(&first.1)?, second.0.grant(&second.1)?];
    for _ in 0..10 {
        // Grants arrive as messages.
        wait(&mut *first.0, &mut Vec::new(), Duration::from_millis(10));
        wait(&mut *second.0, &mut Vec::new(), Duration::from_millis(10));
    }
    let windows = [first.0.import(&grants[1])?, second.0.import(&grants[0])?];
    let mut windows = windows.into_iter();
    let ends = ends.map(|(lane, region)| {
        let window = windows.next().expect("two windows");
        let (ops, done) = (VecDeque::new(), Vec::new());
        End { lane, region, window, ops, done, sent: 0, received: 0 }
    });
    Ok(ends)
}

type Connected = (Box<dyn Lane>, Region);

fn connect_lanes(fabric: &dyn Fabric) -> Outcome<[Connected; 2]> {
    let [dial, accept] =
        [Side::Dial, Side::Accept].map(|side| fabric.prepare_lane(side).map_err(Box::new));
    let (dial, accept) = (dial?, accept?);
    let offers = [dial.offer(), accept.offer()];
    let lanes = thread::scope(|scope| {
        let other = scope.spawn(|| accept.connect(&offers[0], LIMIT));
        let lane = dial.connect(&offers[1], LIMIT);
        (lane, other.join().expect("it does not panic"))
    });
    let region = || -> Outcome<Region> { Ok(fabric.register(&memory()?, Rights::ALL)?) };
    Ok([(lanes.0?, region()?), (lanes.1?, region()?)])
}

fn connect_links(transport: &str) -> Outcome<[Connected; 2]> {
    let known = Transport::ALL.into_iter().find(|known| known.name() == transport);
    let transports = vec![known.ok_or("no such transport")?];
    let settings = EndpointSettings { transports, ..EndpointSettings::default() };
    let endpoints = [Endpoint::new(settings.clone())?, Endpoint::new(settings)?];
    let listener = endpoints[1].listen("127.0.0.1:0".parse()?)?;
    let address = listener.address();
    let (dialled, accepted) = thread::scope(|scope| {
        let accepted = scope.spawn(|| {
            let mut link = listener.accept(LIMIT).expect("a client")?;
            while !link.is_up() {
                wait(&mut link, &mut Vec::new(), Duration::from_millis(10));
            }
            Ok(link)
        });
        let dialled = endpoints[0].connect(address, LIMIT);
        (dialled, accepted.join().expect("it does not panic"))
    });
    let accepted: Result<_, fabric::Error> = accepted;
    let region =
        |at: usize| -> Outcome<Region> { Ok(endpoints[at].register(&memory()?, Rights::ALL)?) };
    Ok([(Box::new(dialled?), region(0)?), (Box::new(accepted?), region(1)?)])
}

fn memory() -> Outcome<Memory> {
    Ok(Memory::allocate(4096, Pages::Plain)?)
}

const BYTES: usize = 64;
const RECEIVES: usize = 32;
const WARM_UP: usize = 500;
const LIMIT: Duration = Duration::from_secs(30);
