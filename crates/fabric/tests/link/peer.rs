//! A peer in another process: it listens, grants its memory, and echoes messages.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use fabric::link::{Endpoint, Link, Transport};
use fabric::{Completion, Done, Lane, Op, Region, RemoteRegion, Rights, Work};

use crate::pair::{LIMIT, only, region};

/// The transports of the child, and the address it listens on.
const CLASSES: &str = "WIRELANE_TEST_CLASSES";
const ADDRESS: &str = "WIRELANE_TEST_ADDRESS";

/// The process, killed on drop.
pub(crate) struct Peer {
    child: Child,
    // The child's test runner fails if it cannot print.
    _output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Peer {
    pub(crate) fn start(transports: &[Transport], address: SocketAddr) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(ARGUMENTS);
        Self::start_by(command, transports, address)
    }

    /// Starts it by a command that runs this program with [`ARGUMENTS`] in another environment.
    pub(crate) fn start_by(
        mut command: Command,
        transports: &[Transport],
        address: SocketAddr,
    ) -> Self {
        command.env(CLASSES, names(transports)).env(ADDRESS, address.to_string());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on ") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the other process listens");
        }
        let (_, address) = line.split_once("listening on ").unwrap();
        Peer { child, _output: output, address: address.trim().parse().unwrap() }
    }

    /// Kills the process.
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

pub(crate) const ARGUMENTS: [&str; 3] = ["--exact", "peer::the_other_process", "--nocapture"];

fn names(transports: &[Transport]) -> String {
    transports.iter().map(|transport| transport.name()).collect::<Vec<_>>().join(",")
}

/// The local end of a link to it, with a region that it granted.
pub(crate) struct LocalEnd {
    pub(crate) endpoint: Endpoint,
    pub(crate) link: Link,
    pub(crate) source: Region,
    pub(crate) remote: RemoteRegion,
}

impl LocalEnd {
    pub(crate) fn connect(transports: &[Transport], address: SocketAddr) -> Self {
        Self::connect_by(Endpoint::new(only(transports)).unwrap(), address)
    }

    pub(crate) fn connect_by(endpoint: Endpoint, address: SocketAddr) -> Self {
        let mut link = endpoint.connect(address, LIMIT).unwrap();
        let source = region(&endpoint, 1 << 20, Rights::NONE);
        link.post(&mut VecDeque::from([Op::receive(0, source.slice(..36))]));
        let mut done = Vec::new();
        assert_eq!(fabric::wait(&mut link, &mut done, LIMIT), 1, "{:?}", link.ended());
        let remote = RemoteRegion::from_bytes(&source.slice(..36).to_vec()).unwrap();
        LocalEnd { endpoint, link, source, remote }
    }

    pub(crate) fn one(&mut self, op: Op) -> Completion {
        self.link.post(&mut VecDeque::from([op]));
        let mut done = Vec::new();
        let count = fabric::wait(&mut self.link, &mut done, LIMIT);
        assert_eq!(count, 1, "{:#?}", self.link.report().status());
        done.remove(0)
    }

    /// Uses memory and messages in both directions.
    pub(crate) fn exercise(&mut self) {
        let window = self.link.import(&self.remote).unwrap();
        let bytes: Vec<u8> = (0..1 << 19).map(|at: u32| (at % 241) as u8).collect();
        self.source.memory().write(0, &bytes);
        let write = Op::write(1, self.source.slice(..1 << 19), window.at(0));
        assert_eq!(self.one(write).outcome, Ok(Done::Placed));
        let read = Op::read(2, self.source.slice(1 << 19..), window.at(0));
        assert_eq!(self.one(read).outcome, Ok(Done::Placed));
        assert_eq!(self.source.slice(1 << 19..).to_vec(), bytes);
        let work = Work::FetchAdd { old: self.source.slice(..8), at: window.at(0), add: 1 };
        assert!(matches!(self.one(Op { op_id: 3, work }).outcome, Ok(Done::Old(_))));
        self.link.post(&mut VecDeque::from([
            Op::receive(4, self.source.slice(64..128)),
            Op::send(5, self.source.slice(8..16)),
        ]));
        let mut done = Vec::new();
        while done.len() < 2 {
            assert!(fabric::wait(&mut self.link, &mut done, LIMIT) > 0, "{:?}", self.link.ended());
        }
        assert_eq!(self.source.slice(64..72).to_vec(), bytes[8..16], "the echo");
    }
}

/// The peer's process; does nothing unless started by [`Peer`].
#[test]
fn the_other_process() {
    let Ok(transports) = std::env::var(CLASSES) else { return };
    let transports: Vec<Transport> = Transport::ALL
        .into_iter()
        .filter(|transport| transports.contains(transport.name()))
        .collect();
    let endpoint = Endpoint::new(only(&transports)).unwrap();
    let address = std::env::var(ADDRESS).unwrap().parse().unwrap();
    let listener = endpoint.listen(address).unwrap();
    print_address(listener.address());
    let shared = region(&endpoint, 1 << 20, Rights::ALL);
    let source = region(&endpoint, 1 << 16, Rights::NONE);
    while let Some(link) = listener.accept(LIMIT) {
        serve(&mut link.unwrap(), &shared, &source);
    }
}

#[allow(clippy::print_stdout, reason = "the pipe to the parent")]
fn print_address(address: SocketAddr) {
    println!("listening on {address}");
    std::io::stdout().flush().unwrap();
}

fn serve(link: &mut Link, shared: &Region, source: &Region) {
    source.memory().write(0, &link.grant(shared).unwrap().to_bytes());
    let slot = |number: usize| source.slice(number * 64..number * 64 + 64);
    let mut todo: VecDeque<Op> = (1..64).map(|at| Op::receive(at as u64, slot(at))).collect();
    todo.push_back(Op::send(0, source.slice(..36)));
    let mut done = Vec::new();
    while link.ended().is_none() {
        link.post(&mut todo);
        fabric::wait(link, &mut done, Duration::from_millis(100));
        for Completion { op_id, outcome, work } in done.drain(..) {
            match (work, outcome) {
                (Work::Receive { into }, Ok(Done::Received { length, .. })) => {
                    let begin = into.as_slice()[0].offset();
                    todo.push_back(Op::send(op_id, source.slice(begin..begin + length)));
                }
                (Work::Send { .. }, Ok(_)) if op_id > 0 => {
                    todo.push_back(Op::receive(op_id, slot(op_id as usize)));
                }
                _ => {}
            }
        }
    }
}
