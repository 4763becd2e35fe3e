//! Measures one lane between two processes of this machine, to be compared with other programs.
//!
//! `perf LANE TEST SIZE ROUNDS [DEVICE PEER-DEVICE]` prints one number: microseconds for one way
//! (`write_lat`, the peer watches its memory; `imm_lat`, the peer waits for the immediate data; `send_lat`, for the
//! message) or MB per second (`write_bw`); nanoseconds for an operation, sixteen in flight (`write_16`);
//! microseconds for a request of 128 bytes that is answered by a write of SIZE with immediate data, one in flight
//! (`rpc_lat`) or sixteen (`rpc_16`). `idle` sleeps ROUNDS seconds as a connected pair and prints the share of a core it used,
//! in percent. Lanes: shm, tcp, tcp-encrypted, verbs; libfabric's providers: ofi-tcp, ofi-shm, ofi-verbs; and links over
//! some: link-shm, link-tcp, link-verbs, link-ofi.
#![allow(clippy::print_stdout, reason = "its answer")]

use std::collections::VecDeque;
use std::error::Error;
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use fabric::link::{Class, Endpoint, Settings};
use fabric::{
    Completion, Done, Fabric, Lane, Memory, Op, Pages, Region, RemoteRegion, Rights, Side, Window,
    ofi, shm, tcp, verbs, wait,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (child, words) = match words.split_first() {
        Some((first, rest)) if first == "--child" => (true, rest.to_vec()),
        _ => (false, words),
    };
    let run = Run::parse(&words)?;
    if child { run.follow() } else { run.lead(&words) }
}

/// What to measure.
struct Run {
    lane: String,
    test: String,
    size: usize,
    rounds: u64,
    devices: Vec<String>,
}

impl Run {
    fn parse(words: &[String]) -> Outcome<Self> {
        let [lane, test, size, rounds, devices @ ..] = words else {
            return Err("usage: perf LANE TEST SIZE ROUNDS [DEVICE PEER-DEVICE]".into());
        };
        let (size, rounds) = (size.parse()?, rounds.parse()?);
        let devices = devices.to_vec();
        Ok(Run { lane: lane.clone(), test: test.clone(), size, rounds, devices })
    }

    fn fabric(&self, end: usize) -> Outcome<Box<dyn Fabric>> {
        match self.lane.as_str() {
            "shm" => Ok(Box::new(shm::Shm::default())),
            "tcp" => Ok(Box::new(tcp::Tcp::default())),
            "tcp-encrypted" => {
                let config = tcp::Config { encrypt: true, ..tcp::Config::default() };
                Ok(Box::new(tcp::Tcp::new(config)))
            }
            "verbs" => verbs(self.devices.get(end)),
            "ofi-tcp" | "ofi-shm" | "ofi-verbs" => ofi(&self.lane[4..], self.devices.get(end)),
            other => Err(format!("no lane {other}").into()),
        }
    }

    /// The process that was started, and starts the other.
    fn lead(&self, words: &[String]) -> Outcome<()> {
        let mut peer = Peer::start(words)?;
        let mut end = self.connect(Side::Dial, &mut peer)?;
        let result = match self.test.as_str() {
            "write_lat" => end.write_latency(self, true),
            "imm_lat" | "send_lat" => end.converse(self, 1) / 2.0,
            "rpc_lat" => end.converse(self, 1),
            "rpc_16" => end.converse(self, SEVERAL),
            "write_bw" => end.bandwidth(self),
            "write_16" => end.rate(self),
            "idle" => end.idle(self),
            other => return Err(format!("no test {other}").into()),
        };
        println!("{result:.3}");
        // One that has said all it had to is gone.
        let _ = peer.say("over");
        end.until_peer_ends(&mut peer)
    }

    /// The other process.
    fn follow(&self) -> Outcome<()> {
        let mut peer = Peer::parent();
        let mut end = self.connect(Side::Accept, &mut peer)?;
        match self.test.as_str() {
            "write_lat" => drop(end.write_latency(self, false)),
            "imm_lat" | "send_lat" | "rpc_lat" | "rpc_16" => drop(end.converse(self, 0)),
            _ => end.serve(&mut peer),
        }
        Ok(())
    }

    /// Lanes, regions, windows.
    fn connect(&self, side: Side, peer: &mut Peer) -> Outcome<End> {
        let room = match self.test.starts_with("rpc") {
            true => SEVERAL * self.size.max(REQUEST),
            false => self.size.max(8),
        };
        let memory = Memory::allocate(room, Pages::Auto)?;
        memory.prefault(1, |_| ())?;
        let source = Memory::allocate(room, Pages::Auto)?;
        source.prefault(1, |_| ())?;
        let (mut lane, [region, source]) = match self.lane.strip_prefix("link-") {
            Some(class) => self.connect_link(class, side, peer, [&memory, &source])?,
            None => self.connect_lane(side, peer, [&memory, &source])?,
        };
        peer.say(&hex(&lane.grant(&region)?.to_bytes()))?;
        let remote = RemoteRegion::from_bytes(&unhex(&peer.hear()?)?)?;
        let window = lane.import(&remote)?;
        Ok(End {
            lane,
            region,
            source,
            window,
            done: Vec::new(),
            ops: VecDeque::new(),
            one: VecDeque::new(),
        })
    }
}

/// A lane, and regions for it.
type Connected = (Box<dyn Lane>, [Region; 2]);

const RIGHTS: [Rights; 2] = [Rights::ALL, Rights::NONE];

impl Run {
    /// Halves and offers.
    fn connect_lane(
        &self,
        side: Side,
        peer: &mut Peer,
        memories: [&Memory; 2],
    ) -> Outcome<Connected> {
        let fabric = self.fabric(usize::from(side == Side::Accept))?;
        let half = fabric.half(side)?;
        peer.say(&hex(&half.offer()))?;
        let offer = unhex(&peer.hear()?)?;
        let lane = half.connect(&offer, LIMIT)?;
        let [a, b] = memories;
        Ok((lane, [fabric.register(a, RIGHTS[0])?, fabric.register(b, RIGHTS[1])?]))
    }

    /// One end listens, the other dials.
    fn connect_link(
        &self,
        class: &str,
        side: Side,
        peer: &mut Peer,
        [a, b]: [&Memory; 2],
    ) -> Outcome<Connected> {
        let class =
            Class::ALL.into_iter().find(|known| known.name() == class).ok_or("no such link")?;
        let device = self.devices.get(usize::from(side == Side::Accept));
        let devices = device.cloned().into_iter().collect();
        let endpoint =
            Endpoint::new(Settings { classes: vec![class], devices, ..Settings::default() })?;
        let regions = [endpoint.register(a, RIGHTS[0])?, endpoint.register(b, RIGHTS[1])?];
        if side == Side::Dial {
            return Ok((Box::new(endpoint.connect(peer.hear()?.parse()?, LIMIT)?), regions));
        }
        let listener = endpoint.listen("127.0.0.1:0".parse()?)?;
        peer.say(&listener.address().to_string())?;
        let mut link = listener.accept(LIMIT).ok_or("nobody came")??;
        while !link.is_up() {
            wait(&mut link, &mut Vec::new(), Duration::from_millis(10));
        }
        Ok((Box::new(link), regions))
    }
}

/// One end, connected.
struct End {
    lane: Box<dyn Lane>,
    region: Region,
    source: Region,
    window: Window,
    done: Vec<Completion>,
    ops: VecDeque<Op>,
    /// The one to be posted now.
    one: VecDeque<Op>,
}

impl End {
    fn write(&self, size: usize) -> Op {
        Op::write(1, self.source.slice(..size), self.window.at(0))
    }

    /// Each end writes when it sees the other's write in its memory. The last eight bytes carry the
    /// round; all that is shorter is written as eight.
    fn write_latency(&mut self, run: &Run, leads: bool) -> f64 {
        let size = run.size.max(8);
        let last = size - 8;
        self.ops.push_back(self.write(size));
        let warm_up = run.rounds / 10 + 1;
        let mut begun = Instant::now();
        for round in 1..=warm_up + run.rounds {
            if round == warm_up + 1 {
                begun = Instant::now();
            }
            if leads {
                self.send_round(last, round);
            }
            while self.region.memory().load(last) != round {
                if self.lane.poll(&mut self.done) > 0 {
                    self.recycle();
                }
            }
            if !leads {
                self.send_round(last, round);
            }
        }
        let took = begun.elapsed();
        self.settle();
        took.as_secs_f64() * 1e6 / (2 * run.rounds) as f64
    }

    fn send_round(&mut self, last: usize, round: u64) {
        self.source.memory().store(last, round);
        while self.ops.is_empty() {
            self.lane.poll(&mut self.done);
            self.recycle();
        }
        self.lane.post(&mut self.ops);
    }

    /// Operations that are over are posted again as they are, with the memory they own.
    fn recycle(&mut self) {
        for completion in self.done.drain(..) {
            completion.outcome.expect("it succeeds");
            self.ops.push_back(Op { token: completion.token, work: completion.work });
        }
    }

    /// Each end says something for everything it hears; who leads says `ahead` things by itself at first.
    /// Microseconds for a word and its answer.
    fn converse(&mut self, run: &Run, ahead: usize) -> f64 {
        let (size, rpc) = (run.size, run.test.starts_with("rpc"));
        let asks = rpc && ahead > 0;
        let message = if asks { REQUEST } else { size };
        let words = if rpc { SEVERAL } else { 2 };
        for word in 0..words {
            let at = if rpc { word * size } else { 0 };
            let op = match asks || run.test == "send_lat" {
                true => Op::send(1, self.source.slice(..message)),
                false => {
                    let from = self.source.slice(at..at + size);
                    Op::write_imm(1, from, self.window.at(at as u64), word as u32)
                }
            };
            self.ops.push_back(op);
            let room = self.region.slice(..if rpc { REQUEST } else { size });
            self.one.extend([Op::receive(0, room.clone()), Op::receive(0, room)]);
        }
        self.lane.post(&mut self.one);
        // Some lanes connect by their first words.
        self.talk(run.rounds / 10 + 1, ahead);
        let begun = Instant::now();
        self.talk(run.rounds, ahead);
        let took = begun.elapsed();
        // What was said last may be on its way.
        while self.ops.len() < words {
            self.lane.poll(&mut self.done);
            self.hear();
        }
        self.settle();
        took.as_secs_f64() * 1e6 / run.rounds as f64
    }

    /// Hears and says so many things.
    fn talk(&mut self, rounds: u64, mut may: usize) {
        let (mut said, mut heard) = (0, 0);
        while said < rounds || heard < rounds {
            let now = may.min(self.ops.len()).min((rounds - said) as usize);
            if now > 0 || !self.one.is_empty() {
                // What is said goes before the receives that were used up.
                let receives = self.one.len();
                self.one.extend(self.ops.drain(..now));
                self.one.rotate_left(receives);
                (said, may) = (said + now as u64, may - now);
                self.lane.post(&mut self.one);
            }
            // Who has said all does not listen any more: the other's first word of the next talk may be there already.
            if said == rounds && heard == rounds || self.lane.poll(&mut self.done) == 0 {
                continue;
            }
            let now = self.hear();
            (heard, may) = (heard + now as u64, may + now);
        }
    }

    /// Sorts what is over; how many things were heard.
    fn hear(&mut self) -> usize {
        let before = self.one.len();
        for Completion { token, outcome, work } in self.done.drain(..) {
            match outcome.expect("it succeeds") {
                Done::Received { .. } => self.one.push_back(Op { token, work }),
                _ => self.ops.push_back(Op { token, work }),
            }
        }
        self.one.len() - before
    }

    /// What one operation costs, sixteen in flight.
    fn rate(&mut self, run: &Run) -> f64 {
        for _ in 0..16 {
            self.ops.push_back(self.write(run.size));
        }
        self.stream(run.rounds / 10 + 1);
        let begun = Instant::now();
        self.stream(run.rounds);
        begun.elapsed().as_nanos() as f64 / run.rounds as f64
    }

    /// Keeps as many writes in flight as other programs do.
    fn bandwidth(&mut self, run: &Run) -> f64 {
        let depth = if run.lane.ends_with("verbs") { VERBS_DEPTH } else { DEPTH };
        for _ in 0..depth {
            self.ops.push_back(self.write(run.size));
        }
        self.stream(run.rounds / 10 + 1);
        let begun = Instant::now();
        self.stream(run.rounds);
        (run.rounds * run.size as u64) as f64 / 1e6 / begun.elapsed().as_secs_f64()
    }

    fn stream(&mut self, rounds: u64) {
        let (mut posted, mut over) = (0, 0);
        let mut waiting = VecDeque::new();
        while over < rounds {
            while posted < rounds && !self.ops.is_empty() {
                waiting.extend(self.ops.drain(..));
                let most = (rounds - posted) as usize;
                self.ops.extend(waiting.drain(..most.min(waiting.len())));
                posted += self.lane.post(&mut self.ops) as u64;
            }
            over += self.lane.poll(&mut self.done) as u64;
            self.recycle();
        }
        self.ops.append(&mut waiting);
    }

    fn idle(&mut self, run: &Run) -> f64 {
        let mut receive = VecDeque::from([Op::receive(0, self.region.slice(..0))]);
        self.lane.post(&mut receive);
        let before = cpu_seconds();
        let limit = Duration::from_secs(run.rounds);
        wait(&mut *self.lane, &mut self.done, limit);
        (cpu_seconds() - before) / run.rounds as f64 * 100.0
    }

    /// Executes what the leader asks for until it says that it is over.
    fn serve(&mut self, peer: &mut Peer) {
        let over = std::thread::scope(|scope| {
            let heard = scope.spawn(|| peer.hear());
            while !heard.is_finished() {
                wait(&mut *self.lane, &mut self.done, Duration::from_millis(500));
            }
            heard.join()
        });
        drop(over);
    }

    /// Lets what is still in flight end.
    fn settle(&mut self) {
        let until = Instant::now() + Duration::from_millis(50);
        while Instant::now() < until {
            self.lane.poll(&mut self.done);
        }
    }

    fn until_peer_ends(&mut self, peer: &mut Peer) -> Outcome<()> {
        while let Some(child) = &mut peer.child {
            if child.try_wait()?.is_some() {
                break;
            }
            self.lane.poll(&mut self.done);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// The other process, spoken to by lines.
struct Peer {
    child: Option<Child>,
    to: Box<dyn Write + Send>,
    from: Lines<Box<dyn BufRead + Send>>,
}

impl Peer {
    fn start(words: &[String]) -> Outcome<Self> {
        let mut command = match std::env::var_os("PERF_PEER_CPU") {
            Some(cpu) => {
                let mut taskset = Command::new("taskset");
                taskset.arg("-c").arg(cpu).arg(std::env::current_exe()?);
                taskset
            }
            None => Command::new(std::env::current_exe()?),
        };
        command.arg("--child").args(words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let to: ChildStdin = child.stdin.take().ok_or("no pipe")?;
        let from = child.stdout.take().ok_or("no pipe")?;
        let from: Box<dyn BufRead + Send> = Box::new(BufReader::new(from));
        Ok(Peer { child: Some(child), to: Box::new(to), from: from.lines() })
    }

    fn parent() -> Self {
        let from: Box<dyn BufRead + Send> = Box::new(BufReader::new(std::io::stdin()));
        Peer { child: None, to: Box::new(std::io::stdout()), from: from.lines() }
    }

    fn say(&mut self, line: &str) -> Outcome<()> {
        writeln!(self.to, "{line}")?;
        Ok(self.to.flush()?)
    }

    fn hear(&mut self) -> Result<String, String> {
        let line = self.from.next().ok_or("the other process ended")?;
        line.map_err(|error| error.to_string())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Outcome<Vec<u8>> {
    let byte =
        |at| text.get(at..at + 2).ok_or("half a byte").map(|hex| u8::from_str_radix(hex, 16));
    let bytes: Result<Vec<_>, _> = (0..text.len()).step_by(2).map(byte).collect();
    Ok(bytes?.into_iter().collect::<Result<Vec<u8>, _>>()?)
}

/// User and system time of this process and those it waited for, from `/proc`.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split_whitespace().next().and_then(|text| text.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}

/// The device named, or the best there is.
fn verbs(device: Option<&String>) -> Outcome<Box<dyn Fabric>> {
    let library = Path::new(verbs::LIBRARY);
    let survey = verbs::survey(library).map_err(|off| off.to_string())?;
    let wish =
        verbs::DeviceRequest { device: device.cloned(), port: None, gid_index: None, mtu: 4096 };
    let choice = verbs::choose(&survey.devices, &wish)?;
    Ok(Box::new(verbs::Domain::open(library, &choice)?))
}

/// A provider of libfabric, on the device named; over TCP to this host itself.
fn ofi(provider: &str, device: Option<&String>) -> Outcome<Box<dyn Fabric>> {
    let mut survey = ofi::survey(None).map_err(|off| off.to_string())?;
    survey.providers.retain(|found| device.is_none_or(|device| found.domain == *device));
    let choice = ofi::choose(&survey, Some(provider)).map_err(|none| none.to_string())?;
    let address = (provider == "tcp").then_some(Ipv4Addr::LOCALHOST.into());
    let config = ofi::Config { address, ..ofi::Config::default() };
    Ok(Box::new(ofi::Domain::open(&choice, config)?))
}

const LIMIT: Duration = Duration::from_secs(20);
/// A request, and how many are in flight in `rpc_16`.
const REQUEST: usize = 128;
const SEVERAL: usize = 16;
/// As many operations in flight as ucx_perftest keeps by default.
const DEPTH: usize = 32;
/// As many as perftest does.
const VERBS_DEPTH: usize = 128;
