//! Measures one lane between two processes of this machine, to be compared with other programs.
//!
//! `perf LANE TEST SIZE ROUNDS [DEVICE PEER-DEVICE]` prints one number: microseconds for one direction
//! (`write_lat`, the peer polls its memory; `imm_lat`, the peer waits for the immediate data; `send_lat`, for the
//! message) or MB per second (`write_bw`; `write_bw_1g` reads from 1 GiB instead of SIZE); nanoseconds per operation, sixteen in flight (`write_16`);
//! microseconds for a request of 128 bytes that is answered by a write of SIZE with immediate data, one in flight
//! (`rpc_lat`) or sixteen (`rpc_16`). `idle` sleeps ROUNDS seconds as a connected pair and prints the used share of a core,
//! in percent. Lanes: shm, tcp, tcp-encrypted, verbs; libfabric's providers: ofi-tcp, ofi-shm, ofi-verbs; and links over
//! some: link-shm, link-tcp, link-verbs, link-ofi.
#![allow(clippy::print_stdout, reason = "prints its result")]

use std::collections::VecDeque;
use std::error::Error;
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, EndpointSettings, Transport};
use fabric::{
    Completion, Done, Fabric, Lane, Memory, Op, Pages, Region, RemoteRegion, Rights, Side, Window,
    ofi, shm, tcp, verbs, wait,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (child, args) = match args.split_first() {
        Some((first, rest)) if first == "--child" => (true, rest.to_vec()),
        _ => (false, args),
    };
    let run = Run::parse(&args)?;
    if child { run.follow() } else { run.lead(&args) }
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
    fn parse(args: &[String]) -> Outcome<Self> {
        let [lane, test, size, rounds, devices @ ..] = args else {
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
            other => Err(format!("unknown lane {other}").into()),
        }
    }

    /// The process that the user started; it starts the other.
    fn lead(&self, args: &[String]) -> Outcome<()> {
        let mut peer = Peer::start(args)?;
        let mut end = self.connect(Side::Dial, &mut peer)?;
        let result = match self.test.as_str() {
            "write_lat" => end.write_latency(self, true),
            "imm_lat" | "send_lat" => end.ping_pong(self, 1) / 2.0,
            "rpc_lat" => end.ping_pong(self, 1),
            "rpc_16" => end.ping_pong(self, RPC_DEPTH),
            "write_bw" | "write_bw_1g" => end.bandwidth(self),
            "write_16" => end.rate(self),
            "idle" => end.idle(self),
            other => return Err(format!("unknown test {other}").into()),
        };
        println!("{result:.3}");
        // A peer that has finished is gone.
        let _ = peer.send("over");
        end.until_peer_ends(&mut peer)
    }

    /// The other process.
    fn follow(&self) -> Outcome<()> {
        let mut peer = Peer::parent();
        let mut end = self.connect(Side::Accept, &mut peer)?;
        match self.test.as_str() {
            "write_lat" => drop(end.write_latency(self, false)),
            "imm_lat" | "send_lat" | "rpc_lat" | "rpc_16" => drop(end.ping_pong(self, 0)),
            _ => end.serve(&mut peer),
        }
        Ok(())
    }

    /// What writes read their bytes from.
    fn source_bytes(&self) -> usize {
        if self.test == "write_bw_1g" { 1 << 30 } else { self.size }
    }

    /// Lanes, regions, windows.
    fn connect(&self, side: Side, peer: &mut Peer) -> Outcome<End> {
        let length = match self.test.starts_with("rpc") {
            true => RPC_DEPTH * self.size.max(REQUEST_BYTES),
            false => self.size.max(8),
        };
        let memory = Memory::allocate(length, Pages::Auto)?;
        memory.prefault(1, |_| ())?;
        let source = Memory::allocate(length.max(self.source_bytes()), Pages::Auto)?;
        source.prefault(1, |_| ())?;
        let (mut lane, [region, source]) = match self.lane.strip_prefix("link-") {
            Some(transport) => self.connect_link(transport, side, peer, [&memory, &source])?,
            None => self.connect_lane(side, peer, [&memory, &source])?,
        };
        peer.send(&hex(&lane.grant(&region)?.to_bytes()))?;
        let remote = RemoteRegion::from_bytes(&unhex(&peer.receive()?)?)?;
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
    /// Exchanges offers and connects.
    fn connect_lane(
        &self,
        side: Side,
        peer: &mut Peer,
        memories: [&Memory; 2],
    ) -> Outcome<Connected> {
        let fabric = self.fabric(usize::from(side == Side::Accept))?;
        let unconnected = fabric.prepare_lane(side)?;
        peer.send(&hex(&unconnected.offer()))?;
        let offer = unhex(&peer.receive()?)?;
        let lane = unconnected.connect(&offer, LIMIT)?;
        let [a, b] = memories;
        Ok((lane, [fabric.register(a, RIGHTS[0])?, fabric.register(b, RIGHTS[1])?]))
    }

    /// One end listens, the other dials.
    fn connect_link(
        &self,
        transport: &str,
        side: Side,
        peer: &mut Peer,
        [a, b]: [&Memory; 2],
    ) -> Outcome<Connected> {
        let transport = Transport::ALL
            .into_iter()
            .find(|known| known.name() == transport)
            .ok_or("no such link")?;
        let device = self.devices.get(usize::from(side == Side::Accept));
        let devices = device.cloned().into_iter().collect();
        let endpoint = Endpoint::new(EndpointSettings {
            transports: vec![transport],
            devices,
            ..EndpointSettings::default()
        })?;
        let regions = [endpoint.register(a, RIGHTS[0])?, endpoint.register(b, RIGHTS[1])?];
        if side == Side::Dial {
            return Ok((Box::new(endpoint.connect(peer.receive()?.parse()?, LIMIT)?), regions));
        }
        let listener = endpoint.listen("127.0.0.1:0".parse()?)?;
        peer.send(&listener.address().to_string())?;
        let mut link = listener.accept(LIMIT).ok_or("no peer connected")??;
        while !link.is_up() {
            wait(&mut link, &mut Vec::new(), Duration::from_millis(10));
        }
        Ok((Box::new(link), regions))
    }
}

/// One connected end.
struct End {
    lane: Box<dyn Lane>,
    region: Region,
    source: Region,
    window: Window,
    done: Vec<Completion>,
    ops: VecDeque<Op>,
    /// The operations to post now.
    one: VecDeque<Op>,
}

impl End {
    fn write(&self, size: usize) -> Op {
        Op::write(1, self.source.slice(..size), self.window.at(0))
    }

    /// Each end writes when it sees the other's write in its memory. The last eight bytes are the
    /// round; shorter messages are written as eight bytes.
    fn write_latency(&mut self, run: &Run, leads: bool) -> f64 {
        let size = run.size.max(8);
        let last = size - 8;
        self.ops.push_back(self.write(size));
        let warm_up = run.rounds / 10 + 1;
        let mut started = Instant::now();
        for round in 1..=warm_up + run.rounds {
            if round == warm_up + 1 {
                started = Instant::now();
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
        let took = started.elapsed();
        self.drain();
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

    /// Finished operations are posted again unchanged, with the memory they own.
    fn recycle(&mut self) {
        for completion in self.done.drain(..) {
            completion.outcome.expect("it succeeds");
            self.ops.push_back(Op { op_id: completion.op_id, work: completion.work });
        }
    }

    /// Each end sends a message for every message it receives; the leader first sends `initial` messages.
    /// Returns microseconds per message and answer.
    fn ping_pong(&mut self, run: &Run, initial: usize) -> f64 {
        let (size, rpc) = (run.size, run.test.starts_with("rpc"));
        let is_client = rpc && initial > 0;
        let message = if is_client { REQUEST_BYTES } else { size };
        let count = if rpc { RPC_DEPTH } else { 2 };
        for index in 0..count {
            let at = if rpc { index * size } else { 0 };
            let op = match is_client || run.test == "send_lat" {
                true => Op::send(1, self.source.slice(..message)),
                false => {
                    let from = self.source.slice(at..at + size);
                    Op::write_imm(1, from, self.window.at(at as u64), index as u32)
                }
            };
            self.ops.push_back(op);
            let length = self.region.slice(..if rpc { REQUEST_BYTES } else { size });
            self.one.extend([Op::receive(0, length.clone()), Op::receive(0, length)]);
        }
        self.lane.post(&mut self.one);
        // Some lanes connect with their first messages.
        self.exchange(run.rounds / 10 + 1, initial);
        let started = Instant::now();
        self.exchange(run.rounds, initial);
        let took = started.elapsed();
        // The last messages may be in flight.
        while self.ops.len() < count {
            self.lane.poll(&mut self.done);
            self.sort_completions();
        }
        self.drain();
        took.as_secs_f64() * 1e6 / run.rounds as f64
    }

    /// Receives and sends `rounds` messages.
    fn exchange(&mut self, rounds: u64, mut may: usize) {
        let (mut sent, mut received) = (0, 0);
        while sent < rounds || received < rounds {
            let now = may.min(self.ops.len()).min((rounds - sent) as usize);
            if now > 0 || !self.one.is_empty() {
                // Messages are posted before the used receives.
                let receives = self.one.len();
                self.one.extend(self.ops.drain(..now));
                self.one.rotate_left(receives);
                (sent, may) = (sent + now as u64, may - now);
                self.lane.post(&mut self.one);
            }
            // An end that has finished does not poll any more: the other's first message of the next exchange may be there already.
            if sent == rounds && received == rounds || self.lane.poll(&mut self.done) == 0 {
                continue;
            }
            let now = self.sort_completions();
            (received, may) = (received + now as u64, may + now);
        }
    }

    /// Sorts completions; returns the number of received messages.
    fn sort_completions(&mut self) -> usize {
        let before = self.one.len();
        for Completion { op_id, outcome, work } in self.done.drain(..) {
            match outcome.expect("it succeeds") {
                Done::Received { .. } => self.one.push_back(Op { op_id, work }),
                _ => self.ops.push_back(Op { op_id, work }),
            }
        }
        self.one.len() - before
    }

    /// Nanoseconds per operation, sixteen in flight.
    fn rate(&mut self, run: &Run) -> f64 {
        for _ in 0..16 {
            self.ops.push_back(self.write(run.size));
        }
        self.stream(run.rounds / 10 + 1, 16);
        let started = Instant::now();
        self.stream(run.rounds, 16);
        started.elapsed().as_nanos() as f64 / run.rounds as f64
    }

    /// MB per second, with as many writes in flight as other programs.
    fn bandwidth(&mut self, run: &Run) -> f64 {
        let depth = if run.lane.ends_with("verbs") { VERBS_DEPTH } else { DEPTH };
        let slots = run.source_bytes() / run.size;
        for op in 0..slots.max(depth) {
            let at = op % slots * run.size;
            let source = self.source.slice(at..at + run.size);
            self.ops.push_back(Op::write(1, source, self.window.at(0)));
        }
        self.stream(run.rounds / 10 + 1, depth);
        let started = Instant::now();
        self.stream(run.rounds, depth);
        (run.rounds * run.size as u64) as f64 / 1e6 / started.elapsed().as_secs_f64()
    }

    /// Posts writes, each when it is free again, up to `depth` in flight.
    fn stream(&mut self, rounds: u64, depth: usize) {
        let (mut posted, mut finished) = (0, 0);
        let mut waiting = VecDeque::new();
        while finished < rounds {
            while posted < rounds && posted - finished < depth as u64 && !self.ops.is_empty() {
                waiting.extend(self.ops.drain(..));
                let most = (rounds - posted).min(depth as u64 - (posted - finished)) as usize;
                self.ops.extend(waiting.drain(..most.min(waiting.len())));
                posted += self.lane.post(&mut self.ops) as u64;
            }
            finished += self.lane.poll(&mut self.done) as u64;
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

    /// Serves the leader until it has finished.
    fn serve(&mut self, peer: &mut Peer) {
        let line = std::thread::scope(|scope| {
            let received = scope.spawn(|| peer.receive());
            while !received.is_finished() {
                wait(&mut *self.lane, &mut self.done, Duration::from_millis(500));
            }
            received.join()
        });
        drop(line);
    }

    /// Polls until operations in flight are finished.
    fn drain(&mut self) {
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

/// The other process, connected by lines of text.
struct Peer {
    child: Option<Child>,
    to: Box<dyn Write + Send>,
    from: Lines<Box<dyn BufRead + Send>>,
}

impl Peer {
    fn start(args: &[String]) -> Outcome<Self> {
        let mut command = match std::env::var_os("PERF_PEER_CPU") {
            Some(cpu) => {
                let mut taskset = Command::new("taskset");
                taskset.arg("-c").arg(cpu).arg(std::env::current_exe()?);
                taskset
            }
            None => Command::new(std::env::current_exe()?),
        };
        command.arg("--child").args(args);
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

    fn send(&mut self, line: &str) -> Outcome<()> {
        writeln!(self.to, "{line}")?;
        Ok(self.to.flush()?)
    }

    fn receive(&mut self) -> Result<String, String> {
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

/// CPU time of the main thread, from `/proc`.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split_whitespace().next().and_then(|text| text.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}

/// The given device, or the best one.
fn verbs(device: Option<&String>) -> Outcome<Box<dyn Fabric>> {
    let library = Path::new(verbs::LIBRARY);
    let listed = verbs::list_devices(library).map_err(|off| off.to_string())?;
    let request =
        verbs::DeviceRequest { device: device.cloned(), port: None, gid_index: None, mtu: 4096 };
    let choice = verbs::choose(&listed.devices, &request)?;
    Ok(Box::new(verbs::Domain::open(library, &choice)?))
}

/// A libfabric provider, on the given device; with tcp over loopback.
fn ofi(provider: &str, device: Option<&String>) -> Outcome<Box<dyn Fabric>> {
    let mut listed = ofi::list_providers(None).map_err(|off| off.to_string())?;
    listed.providers.retain(|found| device.is_none_or(|device| found.domain == *device));
    let choice = ofi::choose(&listed, Some(provider)).map_err(|none| none.to_string())?;
    let address = (provider == "tcp").then_some(Ipv4Addr::LOCALHOST.into());
    let config = ofi::Config { address, ..ofi::Config::default() };
    Ok(Box::new(ofi::Domain::open(&choice, config)?))
}

const LIMIT: Duration = Duration::from_secs(20);
/// The length of a request, and the number in flight in `rpc_16`.
const REQUEST_BYTES: usize = 128;
const RPC_DEPTH: usize = 16;
/// Operations in flight, as in ucx_perftest by default.
const DEPTH: usize = 32;
/// Operations in flight, as in perftest.
const VERBS_DEPTH: usize = 128;
