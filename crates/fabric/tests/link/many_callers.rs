//! Ten thousand callers that never finish their handshake, and peers that mean it.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use fabric::link::{Class, Endpoint};
use fabric::session::Reason;
use fabric::{Done, Kind, Op, Region, Rights, Window, wait};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::pair::{LIMIT, Two, only, post};

const CROWD: u64 = 10_000;
const CALLERS: &str = "WIRELANE_TEST_CALLERS";

#[test]
fn ten_thousand_half_open_connections_disturb_nobody() {
    for class in [Class::Tcp, Class::Shm] {
        disturb(class);
    }
}

fn disturb(class: Class) {
    let mut two = Two::over(class);
    let there = two.region(1, 1 << 20, Rights::ALL);
    let here = two.region(0, 2 << 20, Rights::NONE);
    let window = two.grant(&there);
    let mut seed = 0;
    let before = work(&mut two, &here, &there, &window, &mut seed, Duration::from_millis(500));

    let address = two.listener.address();
    let children = CROWD.div_ceil(descriptors() - 100);
    let mut crowd: Vec<Callers> =
        (0..children).map(|_| Callers::start(address, CROWD.div_ceil(children))).collect();
    let counts = |two: &Two| {
        let counts = two.listener.counts();
        let refused: u64 = Reason::ALL.iter().map(|reason| counts.refused(*reason)).sum();
        counts.half_open() as u64 + refused
    };
    // At work while they come.
    let (mut during, mut connected) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    while counts(&two) < CROWD {
        assert!(begun.elapsed() < 4 * LIMIT, "{} of {CROWD} came", counts(&two));
        during.extend(work(&mut two, &here, &there, &window, &mut seed, Duration::ZERO));
        if connected.is_empty() && counts(&two) > CROWD / 8 {
            connected.push(another_peer(&two, class));
        }
    }
    for callers in &mut crowd {
        callers.hear("all are in");
    }
    let came = begun.elapsed();
    // They are all there still.
    connected.push(another_peer(&two, class));
    during.extend(work(&mut two, &here, &there, &window, &mut seed, Duration::from_millis(500)));
    assert_eq!((two.dialler.ended(), two.acceptor.ended()), (None, None));
    drop(crowd);
    eprintln!(
        "over {class:?}: {CROWD} came in {came:.1?}; 1 MiB there and back took {} before and {} \
         during; other peers were connected (after so many calls) in {connected:.1?}",
        times(before),
        times(during)
    );
}

/// Somebody who means it comes, and dials again if told so. How long that took, and how many calls.
fn another_peer(two: &Two, class: Class) -> (Duration, usize) {
    let begun = Instant::now();
    let honest = Endpoint::new(only(&[class])).unwrap();
    let (address, mut calls) = (two.listener.address(), 0);
    let call = || {
        loop {
            calls += 1;
            match honest.connect(address, LIMIT) {
                Ok(link) => return (link, calls),
                Err(error) => assert_eq!(error.kind(), Kind::Full, "{error}"),
            }
            assert!(begun.elapsed() < LIMIT, "refused again and again");
        }
    };
    std::thread::scope(|scope| {
        let call = scope.spawn(call);
        let mut acceptor = two.listener.accept(LIMIT).unwrap().unwrap();
        while !call.is_finished() {
            wait(&mut acceptor, &mut Vec::new(), Duration::from_millis(1));
        }
        let (dialler, calls) = call.join().unwrap();
        assert_eq!(dialler.report().explain().lane, Some(class.name()));
        (begun.elapsed(), calls)
    })
}

/// Writes a MiB and reads it back for so long, once at least, and sends a message each time: every byte is
/// looked at. How long each took.
fn work(
    two: &mut Two,
    here: &Region,
    there: &Region,
    window: &Window,
    seed: &mut u64,
    limit: Duration,
) -> Vec<Duration> {
    const SIZE: usize = 1 << 20;
    let begun = Instant::now();
    let mut took = Vec::new();
    while took.is_empty() || begun.elapsed() < limit {
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
        assert_eq!(two.do_one(write), Ok(Done::Placed));
        let read = Op::read(2, here.slice(SIZE..), window.at(0));
        assert_eq!(two.do_one(read), Ok(Done::Placed));
        took.push(step.elapsed());
        assert_eq!(there.slice(..).to_vec(), bytes);
        assert_eq!(here.slice(SIZE..).to_vec(), bytes);
        post(&mut two.acceptor, [Op::receive(3, there.slice(..8))]);
        post(&mut two.dialler, [Op::send(4, here.slice(8..16))]);
        two.run(1, 1);
        assert_eq!(there.slice(..8).to_vec(), bytes[8..16]);
    }
    took
}

fn times(mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    let (median, most) = (took[took.len() / 2], took[took.len() - 1]);
    format!("{median:.1?} ({most:.1?} at most, of {})", took.len())
}

/// How many this process may have, raised as far as it goes.
fn descriptors() -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = maximum.unwrap_or(u64::MAX).min(CROWD + 1000);
    if getrlimit(Resource::Nofile).current.is_some_and(|current| current < raised) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }).unwrap();
    }
    assert!(raised > 500, "too few descriptors for this test: raise `ulimit -Hn`");
    raised
}

/// A process full of callers, which hang up with it.
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

    fn hear(&mut self, what: &str) {
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

/// Nothing where it is not wanted. Some say nothing, some begin as peers do.
#[test]
#[allow(clippy::print_stdout, reason = "the pipe to the parent")]
fn the_callers() {
    let Ok(what) = std::env::var(CALLERS) else { return };
    let (count, address) = what.split_once(' ').unwrap();
    let address: SocketAddr = address.parse().unwrap();
    descriptors();
    let call = |number: u64| {
        let mut socket = TcpStream::connect(address).unwrap();
        // As a session begins, but no more; it may be given up already.
        let _ = socket.write_all(&b"WLC1"[..number as usize % 4]);
        socket
    };
    let sockets: Vec<TcpStream> = (0..count.parse().unwrap()).map(call).collect();
    println!("all are in");
    std::io::stdout().flush().unwrap();
    // Until the parent ends, too.
    let _ = std::io::stdin().read_line(&mut String::new());
    drop(sockets);
}
