//! The peer in another process: it listens, grants its memory, and reports what it received.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use fabric::link::{Endpoint, EndpointSettings, Link, Transport};
use fabric::{Completion, Done, Lane, Memory, Op, Pages, Region, Rights, Work};

const CHILD: &str = "WIRELANE_TEST_CHILD";

/// Two rails: rxe0 to rxe1, and rxe2 to rxe3. Without shared memory.
pub(crate) fn settings(devices: [&str; 2]) -> EndpointSettings {
    let mut settings = EndpointSettings {
        transports: vec![Transport::Verbs, Transport::Tcp],
        devices: devices.map(str::to_owned).to_vec(),
        ..EndpointSettings::default()
    };
    settings.link.retry_delay = Duration::from_secs(1);
    settings.link.op_timeout = Duration::from_secs(2);
    settings.link.peer_timeout = Duration::from_secs(60);
    settings
}

/// The process, killed on drop.
pub(crate) struct Peer {
    child: Child,
    // The child's test runner fails if it cannot print.
    _output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Peer {
    /// Starts this program in the other role.
    pub(crate) fn start(size: usize) -> Self {
        crate::local_end::repair_all();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "peer::the_other_process", "--nocapture"]);
        let child = command.env(CHILD, size.to_string()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on ") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the other process listens");
        }
        let (_, address) = line.split_once("listening on ").unwrap();
        Peer { child, _output: output, address: address.trim().parse().unwrap() }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The peer's process; does nothing unless started by [`Peer`].
#[test]
#[allow(clippy::print_stdout, reason = "the pipe to the parent")]
fn the_other_process() {
    let Ok(size) = std::env::var(CHILD) else { return };
    let endpoint = Endpoint::new(settings(["rxe1", "rxe3"])).unwrap();
    let listener = endpoint.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let memory = Memory::allocate(size.parse().unwrap(), Pages::Plain).unwrap();
    let region = endpoint.register(&memory, Rights::ALL).unwrap();
    let source = endpoint.register(&Memory::allocate(SOURCE, Pages::Plain).unwrap(), Rights::NONE);
    println!("listening on {}", listener.address());
    let source = source.unwrap();
    loop {
        let Some(link) = listener.accept(Duration::from_secs(120)) else { return };
        PeerLink {
            link: link.unwrap(),
            region: region.clone(),
            source: source.clone(),
            received: Received::default(),
        }
        .serve();
    }
}

/// Counts of received messages and immediate data.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) messages: u64,
    pub(crate) out_of_order: u64,
    pub(crate) numbers: BTreeMap<u32, u64>,
}

struct PeerLink {
    link: Link,
    region: Region,
    source: Region,
    received: Received,
}

impl PeerLink {
    fn serve(&mut self) {
        let remote = self.link.grant(&self.region).unwrap();
        self.source.memory().write(0, &remote.to_bytes());
        let receive = |slot: usize| {
            let begin = ANSWER + slot * SLOT;
            Op::receive(slot as u64, self.source.slice(begin..begin + SLOT))
        };
        let mut todo: VecDeque<Op> = (0..SLOTS).map(receive).collect();
        todo.push_back(Op::send(SENT, self.source.slice(..36)));
        let mut done = Vec::new();
        while self.link.ended().is_none() {
            self.link.post(&mut todo);
            fabric::wait(&mut self.link, &mut done, Duration::from_millis(100));
            for completion in done.drain(..) {
                todo.extend(self.handle(completion));
            }
        }
        eprintln!("the other process: {:?}", self.link.ended());
    }

    fn handle(&mut self, completion: Completion) -> Vec<Op> {
        let Completion { op_id, outcome, work } = completion;
        let (Work::Receive { into }, Ok(Done::Received { length, imm })) = (work, outcome) else {
            return Vec::new();
        };
        let receive = into.as_slice()[0].clone();
        let message = receive.to_vec();
        let mut ops = vec![Op::receive(op_id, receive)];
        let number = |at: usize| u64::from_le_bytes(message[at..at + 8].try_into().unwrap());
        if let Some(imm) = imm {
            *self.received.numbers.entry(imm).or_default() += 1;
        } else if message.starts_with(b"number: ") {
            self.received.out_of_order += u64::from(number(8) != self.received.messages);
            self.received.messages += 1;
        } else if message.starts_with(b"wrong:  ") {
            let wrong = wrong(&self.region, number(8), number(16) as usize, number(24) as usize);
            ops.push(self.answer(&[wrong]));
        } else if message.starts_with(b"reuse:  ") {
            let (begin, length) = (number(8) as usize, number(16) as usize);
            self.region.memory().write(begin, &vec![0xee; length]);
            ops.push(self.answer(&[1]));
        } else if message.starts_with(b"touched:") {
            let (begin, length) = (number(8) as usize, number(16) as usize);
            let bytes = self.region.slice(begin..begin + length).to_vec();
            ops.push(self.answer(&[bytes.iter().filter(|byte| **byte != 0xee).count() as u64]));
        } else if message.starts_with(b"seen:   ") {
            let twice = self.received.numbers.values().filter(|times| **times != 1).count() as u64;
            let different = self.received.numbers.len() as u64;
            ops.push(self.answer(&[
                self.received.messages,
                self.received.out_of_order,
                different,
                twice,
            ]));
        } else {
            panic!("unknown request of {length} bytes");
        }
        ops
    }

    fn answer(&self, words: &[u64]) -> Op {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.source.memory().write(64, &bytes);
        Op::send(SENT, self.source.slice(64..64 + bytes.len()))
    }
}

/// A byte pattern that is unique to a seed and a position, a MiB at a time. Fast to generate.
pub(crate) struct Pattern {
    block: Vec<u8>,
    seed: u64,
}

impl Pattern {
    pub(crate) fn new(seed: u64) -> Self {
        let mut state = seed | 1;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            state
        };
        let page: Vec<u8> = (0..512).flat_map(|_| next().to_le_bytes()).collect();
        Pattern { block: page.repeat(256), seed }
    }

    /// The MiB with this number.
    pub(crate) fn mib(&mut self, number: usize) -> &[u8] {
        for (page, bytes) in self.block.chunks_mut(4096).enumerate() {
            let stamp = self.seed << 48 | (number as u64) << 16 | page as u64;
            bytes[page * 8 % 4096..][..8].copy_from_slice(&stamp.to_le_bytes());
        }
        &self.block
    }
}

/// The number of MiB of a region with wrong bytes.
fn wrong(region: &Region, seed: u64, first: usize, count: usize) -> u64 {
    let mut pattern = Pattern::new(seed);
    let wrong = (first..first + count).filter(|number| {
        let begin = number << 20;
        region.slice(begin..begin + (1 << 20)).to_vec() != pattern.mib(*number)
    });
    wrong.count() as u64
}

const SENT: u64 = u64::MAX;
const ANSWER: usize = 4096;
const SLOT: usize = 4096;
const SLOTS: usize = 64;
const SOURCE: usize = ANSWER + SLOT * SLOTS;
