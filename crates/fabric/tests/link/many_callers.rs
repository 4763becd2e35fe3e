//! Ten thousand callers that never finish their handshake, and peers that do.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, Transport};
use fabric::session::Reason;
use fabric::{Done, ErrorKind, Op, Region, Rights, Window, wait};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::pair::{LIMIT, LinkPair, only, post};

const CALLER_COUNT: u64 = 10_000;
const CALLERS: &str = "WIRELANE_TEST_CALLERS";

#[test]
fn ten_thousand_half_open_connections_do_not_disturb_links() {
    for transport in [Transport::Tcp, Transport::Shm] {
        disturb(transport);
    }
}

fn disturb(transport: Transport) {
    let mut pair = LinkPair::over(transport);
    let there = pair.region(1, 1 << 20, Rights::ALL);
    let here = pair.region(0, 2 << 20, Rights::NONE);
    let window = pair.grant(&there);
    let mut seed = 0;
    let before = work(&mut pair, &here, &there, &window, &mut seed, Duration::from_millis(500));

    let address = pair.listener.address();
    let children = CALLER_COUNT.div_ceil(descriptors() - 100);
    let mut processes: Vec<Callers> =
        (0..children).map(|_| Callers::start(address, CALLER_COUNT.div_ceil(children))).collect();
    let counts = |pair: &LinkPair| {
        let counts = pair.listener.counts();
        let refused: u64 = Reason::ALL.iter().map(|reason| counts.refused(*reason)).sum();
        counts.half_open() as u64 + refused
    };
    // Operations while they connect.
    let (mut during, mut connected) = (Vec::new(), Vec::new());
    let started = Instant::now();
    while counts(&pair) < CALLER_COUNT {
        assert!(started.elapsed() < 4 * LIMIT, "{} of {CALLER_COUNT} connected", counts(&pair));
        during.extend(work(&mut pair, &here, &there, &window, &mut seed, Duration::ZERO));
        if connected.is_empty() && counts(&pair) > CALLER_COUNT / 8 {
            connected.push(another_peer(&pair, transport));
        }
    }
    for callers in &mut processes {
        callers.wait_for("all are connected");
    }
    let elapsed = started.elapsed();
    // All are still connected.
    connected.push(another_peer(&pair, transport));
    during.extend(work(&mut pair, &here, &there, &window, &mut seed, Duration::from_millis(500)));
    assert_eq!((pair.initiator.ended(), pair.accepted.ended()), (None, None));
    drop(processes);
    eprintln!(
        "over {transport:?}: {CALLER_COUNT} connected in {elapsed:.1?}; 1 MiB there and back took {} before and {} \
        during; other peers connected in (time, calls) {connected:.1?}",
        times(before),
        times(during)
    );
}

/// Connects another peer, again while the listener is full. Returns the time and the number of calls.
fn another_peer(pair: &LinkPair, transport: Transport) -> (Duration, usize) {
    let started = Instant::now();
    let honest = Endpoint::new(only(&[transport])).unwrap();
    let (address, mut calls) = (pair.listener.address(), 0);
    let call = || {
        loop {
            calls += 1;
            match honest.connect(address, LIMIT) {
                Ok(link) => return (link, calls),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "{error}"),
            }
            assert!(started.elapsed() < LIMIT, "refused again and again");
        }
    };
    std::thread::scope(|scope| {
        let call = scope.spawn(call);
        let mut accepted = pair.listener.accept(LIMIT).unwrap().unwrap();
        while !call.is_finished() {
            wait(&mut accepted, &mut Vec::new(), Duration::from_millis(1));
        }
        let (initiator, calls) = call.join().unwrap();
        assert_eq!(initiator.report().status().transport, Some(transport.name()));
        (started.elapsed(), calls)
    })
}

/// Writes a MiB and reads it back until the time limit, at least once, and sends a message each time; checks every
/// byte. Returns the duration of each round.
fn work(
    pair: &mut LinkPair,
    here: &Region,
    there: &Region,
    window: &Window,
    seed: &mut u64,
    limit: Duration,
) -> Vec<Duration> {
    const SIZE: usize = 1 << 20;
    let started = Instant::now();
    let mut took = Vec::new();
    while took.is_empty() || started.elapsed() < limit {
        *seed += 1;
        let bytes: Vec<u8> = (0..SIZE / 8)
            .flat_map(|at| {
                (*seed << 32 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
            })
            .collect();
        here.memory().write(0, &bytes);
        here.memory().write(SIZE, &vec![0; SIZE]);
        let step = Instant::now();
        let write = Op::write(1, here.slice(..SIZE), window.at(0));
        assert_eq!(pair.do_one(write), Ok(Done::Placed));
        let read = Op::read(2, here.slice(SIZE..), window.at(0));
        assert_eq!(pair.do_one(read), Ok(Done::Placed));
        took.push(step.elapsed());
        assert_eq!(there.slice(..).to_vec(), bytes);
        assert_eq!(here.slice(SIZE..).to_vec(), bytes);
        post(&mut pair.accepted, [Op::receive(3, there.slice(..8))]);
        post(&mut pair.initiator, [Op::send(4, here.slice(8..16))]);
        pair.run(1, 1);
        assert_eq!(there.slice(..8).to_vec(), bytes[8..16]);
    }
    took
}

fn times(mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    let (median, max) = (took[took.len() / 2], took[took.len() - 1]);
    format!("p50 {median:.1?} max {max:.1?} ({} samples)", took.len())
}

/// Raises the descriptor limit as far as possible, and returns it.
fn descriptors() -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = maximum.unwrap_or(u64::MAX).min(CALLER_COUNT + 1000);
    if getrlimit(Resource::Nofile).current.is_some_and(|current| current < raised) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }).unwrap();
    }
    assert!(raised > 500, "too few descriptors for this test: raise `ulimit -Hn`");
    raised
}

/// A process with many callers, whose connections close when it ends.
struct Callers {
    child: Child,
    _to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Callers {
    fn start(address: SocketAddr, count: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "many_callers::the_callers", "--nocapture"]);
        command.env(CALLERS, format!("{count} {address}"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Callers { child, _to: to, from: BufReader::new(from) }
    }

    fn wait_for(&mut self, what: &str) {
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the callers ended");
        }
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does nothing unless started by [`Callers`]. Some callers send nothing, some the start of a preface.
#[test]
#[allow(clippy::print_stdout, reason = "the pipe to the parent")]
fn the_callers() {
    let Ok(what) = std::env::var(CALLERS) else { return };
    let (count, address) = what.split_once(' ').unwrap();
    let address: SocketAddr = address.parse().unwrap();
    descriptors();
    let call = |number: u64| {
        let mut socket = TcpStream::connect(address).unwrap();
        // The start of a preface; the connection may be given up already.
        let _ = socket.write_all(&b"WLC1"[..number as usize % 4]);
        socket
    };
    let sockets: Vec<TcpStream> = (0..count.parse().unwrap()).map(call).collect();
    println!("all are connected");
    std::io::stdout().flush().unwrap();
    // Until the parent ends.
    let _ = std::io::stdin().read_line(&mut String::new());
    drop(sockets);
}
