//! The benchmark programs: ours and others. Each returns one number.
//!
//! The two processes of a run are bound to two different CPUs, the same for all programs, if
//! there are two; so the scheduler has the same effect on all.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::build::Build;
use crate::{Failure, lab, shell};

/// Ours: `examples/perf.rs`, which starts its peer itself.
pub(super) fn perf(arguments: &[&str]) -> Result<f64, Failure> {
    perf_of(&Build::ours(), arguments)
}

/// As [`perf`], of a build.
pub(super) fn perf_of(build: &Build, arguments: &[&str]) -> Result<f64, Failure> {
    let mut command = bound(0, &build.program("examples/perf"));
    command.args(arguments);
    if cpus() > 1 {
        command.env("PERF_PEER_CPU", "1");
    }
    if arguments[0].starts_with("ofi-") {
        // As in `fabric::ofi::ENVIRONMENT`.
        command.envs([FEW_PEERS, ("FI_MR_CACHE_MAX_COUNT", "0")]);
        command.envs([("FI_OFI_RXM_USE_SRX", "1"), ("FI_OFI_RXM_MSG_RX_SIZE", "256")]);
    }
    number(shell::output(&mut limited(command))?.trim())
}

/// ucx_perftest: microseconds for latency, MB/s for bandwidth.
pub(super) fn ucx(transports: &str, test: &str, size: usize, rounds: u32) -> Result<f64, Failure> {
    let port = free_port()?;
    let mut server = bound(1, "ucx_perftest");
    server.args(["-p", &port]).env("UCX_TLS", transports);
    let mut client = bound(0, "ucx_perftest");
    client.args(["127.0.0.1", "-p", &port, "-t", test, "-f", "-s", &size.to_string()]);
    client.args(["-n", &rounds.to_string(), "-w", &(rounds / 10).to_string()]);
    client.env("UCX_TLS", transports);
    let output = with_server(server, Ready::Port(port), client)?;
    // Iterations; latency: median, average, overall; bandwidth: average, overall; message rates.
    let line = output.lines().rfind(|line| line.split_whitespace().count() >= 8);
    let columns: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    let latency = test.ends_with("_lat");
    let column = columns.get(columns.len().wrapping_sub(if latency { 5 } else { 3 }));
    let value = number(column.ok_or_else(|| format!("ucx_perftest output: {output}"))?)?;
    // Its megabyte is 2^20 bytes.
    Ok(if latency { value } else { value * 1.048_576 })
}

/// Results of fi_pingpong: one-way latency, and throughput.
pub(super) struct PingPong {
    pub(super) us: f64,
    pub(super) mb_per_s: f64,
}

/// libfabric's own fi_pingpong, over reliable datagrams; in the lab to the first wire's far end. Its time includes
/// connecting, over
/// half a second there, so the difference between a long and a short run is used.
pub(super) fn fi_pingpong(provider: &str, size: usize, rounds: u32) -> Result<PingPong, Failure> {
    let (short, long) = (f64::from(rounds / 5), f64::from(rounds));
    let first = short * fi_pingpong_once(provider, size, rounds / 5)?;
    let us = (long * fi_pingpong_once(provider, size, rounds)? - first) / (long - short);
    Ok(PingPong { us, mb_per_s: size as f64 / us })
}

fn fi_pingpong_once(provider: &str, size: usize, rounds: u32) -> Result<f64, Failure> {
    let port = free_port()?;
    let end = |cpu: u32| {
        let mut command = bound(cpu, "fi_pingpong");
        command.args(["-p", provider, "-e", "rdm", "-S", &size.to_string()]);
        command.args(["-I", &rounds.to_string()]).envs([FEW_PEERS]);
        command
    };
    let mut server = end(1);
    server.args(["-B", &port]);
    let mut client = end(0);
    let far = if provider.starts_with("verbs") { "10.77.0.2" } else { "127.0.0.1" };
    client.args(["-P", &port, far]);
    let output = with_server(server, Ready::Port(port), client)?;
    // Bytes, sent, answered, in all, time, MB/s, us one way, rate.
    let columns: Vec<&str> = output.lines().last().unwrap_or_default().split_whitespace().collect();
    number(columns.get(6).ok_or_else(|| format!("fi_pingpong output: {output}"))?)
}

/// Both ends' queues must fit into an rxe.
const FEW_PEERS: (&str, &str) = ("FI_UNIVERSE_SIZE", "16");

/// iperf3 with one stream: MB/s.
pub(super) fn iperf3(seconds: u32) -> Result<f64, Failure> {
    let port = free_port()?;
    let mut server = bound(1, "iperf3");
    server.args(["-s", "-1", "-p", &port]);
    let mut client = bound(0, "iperf3");
    client.args(["-c", "127.0.0.1", "-p", &port, "-J", "-t", &seconds.to_string()]);
    let output = with_server(server, Ready::After(Duration::from_millis(300)), client)?;
    let output: Value =
        serde_json::from_str(&output).map_err(|error| format!("iperf3: {error}"))?;
    let bits = output["end"]["sum_received"]["bits_per_second"].as_f64();
    bits.map(|bits| bits / 8e6).ok_or_else(|| "iperf3 returned no result".to_owned())
}

/// perftest over the lab's first wire: MB/s for bandwidth, microseconds on the average for latency.
pub(super) fn perftest(program: &str, size: usize, rounds: u32) -> Result<f64, Failure> {
    // Size, rounds, then: peak, average; or min, max, typical, average.
    let latency = program.ends_with("_lat");
    let value = perftest_column(program, size, rounds, if latency { 5 } else { 3 })?;
    Ok(if latency { value } else { value * 1.048_576 })
}

/// `wirelane bench` over the lab's first wire, its two ends bound as perftest's are: MB/s for bandwidth, the median in
/// microseconds for latency.
pub(super) fn wirelane_bench(test: &str, size: usize, rounds: u32) -> Result<f64, Failure> {
    let program = Build::ours().program("wirelane");
    let address = format!("127.0.0.1:{}", free_port()?);
    let mut server = bound(1, &program);
    server.args(["bench", "serve", "--listen", &address]);
    let mut client = bound(0, &program);
    client.args(["bench", test, &address, "--transport", "verbs", "--json"]);
    client.args(["--device", "rxe0", "--peer-device", "rxe1", "--size", &size.to_string()]);
    client.args(["--count", &rounds.to_string()]);
    if test == "bw" {
        // As deep as perftest's.
        client.args(["--depth", "128"]);
    }
    let port = address.rsplit(':').next().unwrap_or_default().to_owned();
    let output = with_server(server, Ready::Port(port), client)?;
    let output: Value = serde_json::from_str(&output).map_err(|error| format!("bench: {error}"))?;
    let point = &output["points"][0];
    let measurement = match test {
        "bw" => point["bytes_per_second"].as_f64().map(|bytes| bytes / 1e6),
        _ => point["latency"]["p50_ns"].as_f64().map(|ns| ns / 1e3),
    };
    measurement.ok_or_else(|| format!("bench returned no result: {output}"))
}

/// One column of perftest's row. Under emulation its clock sometimes gives infinity; then it is run again.
pub(super) fn perftest_column(
    program: &str,
    size: usize,
    rounds: u32,
    column: usize,
) -> Result<f64, Failure> {
    for _ in 0..3 {
        let value = perftest_once(program, size, rounds, column)?;
        if value.is_finite() {
            return Ok(value);
        }
    }
    Err(format!("{program} with {size} B returned no number three times"))
}

fn perftest_once(program: &str, size: usize, rounds: u32, column: usize) -> Result<f64, Failure> {
    let port = free_port()?;
    let end = |cpu: u32, device: &str| {
        let mut command = bound(cpu, program);
        command.args(["-d", device, "-x", "1", "-F", "-p", &port, "-s", &size.to_string()]);
        command.args(["-n", &rounds.to_string()]);
        command
    };
    let mut client = end(0, "rxe0");
    client.arg("127.0.0.1");
    let output = with_server(end(1, "rxe1"), Ready::After(Duration::from_secs(2)), client)?;
    let size = size.to_string();
    let line = output.lines().find(|line| line.split_whitespace().next() == Some(&size));
    let columns: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    number(columns.get(column).ok_or_else(|| format!("{program} output: {output}"))?)
}

/// When a server is ready.
enum Ready {
    /// As soon as its port listens.
    Port(String),
    /// After a time, where a first connection would be taken for the client.
    After(Duration),
}

/// Runs the client against the server; kills the server if it does not exit.
fn with_server(server: Command, ready: Ready, client: Command) -> Result<String, Failure> {
    let mut server = limited(server);
    server.stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Running(server.spawn().map_err(|error| format!("{error}"))?);
    match ready {
        Ready::Port(port) => wait_for_port(&port)?,
        Ready::After(time) => std::thread::sleep(time),
    }
    shell::output(&mut limited(client))
}

struct Running(Child);

/// Waits until a port listens. Reads the kernel's table, since a connection would be taken for the client.
pub(super) fn wait_for_port(port: &str) -> Result<(), Failure> {
    let port = format!(":{:04X} ", port.parse::<u16>().map_err(|error| error.to_string())?);
    let limit = Instant::now() + Duration::from_secs(10);
    while Instant::now() < limit {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
        // State 0A is LISTEN.
        let listens = tables
            .iter()
            .flatten()
            .flat_map(|table| table.lines())
            .any(|line| line.contains(&port) && line.split_whitespace().nth(3) == Some("0A"));
        if listens {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("the server did not listen within 10 s".to_owned())
}

impl Drop for Running {
    fn drop(&mut self) {
        let limit = Instant::now() + Duration::from_secs(5);
        while Instant::now() < limit {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The CPUs that a pair of programs uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cpus {
    /// One each: servers the second of the machine, clients the first.
    One,
    /// All of the machine.
    All,
}

impl Cpus {
    pub(super) fn server(self, program: &str) -> Command {
        self.command(1, program)
    }

    pub(super) fn client(self, program: &str) -> Command {
        self.command(0, program)
    }

    fn command(self, cpu: u32, program: &str) -> Command {
        match self {
            Cpus::One => bound(cpu, program),
            Cpus::All => Command::new(program),
        }
    }
}

/// Bound to one CPU, if there are several.
pub(super) fn bound(cpu: u32, program: &str) -> Command {
    if cpus() == 1 {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string(), program]);
    command
}

/// With a timeout of two minutes, longer than any run.
pub(super) fn limited(command: Command) -> Command {
    let mut limited = Command::new("timeout");
    limited.arg("120").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            limited.env(name, value);
        }
    }
    limited.stdin(Stdio::null());
    limited
}

pub(super) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub(super) fn free_port() -> Result<String, Failure> {
    let listener =
        TcpListener::bind("127.0.0.1:0").map_err(|error| format!("find a port: {error}"))?;
    let address = listener.local_addr().map_err(|error| format!("find a port: {error}"))?;
    Ok(address.port().to_string())
}

pub(super) fn number(text: &str) -> Result<f64, Failure> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}

/// A description of the machine.
pub(super) fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown CPU", |(_, model)| model);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} x {model}, Linux {}", cpus(), kernel.trim())
}

/// Runs the lab's rows of a comparison with this program in one machine.
pub(crate) fn in_the_lab(
    what: &str,
    pairs: u32,
    only: &str,
    limit: u64,
) -> Result<Vec<Value>, Failure> {
    let ourselves =
        std::env::current_exe().map_err(|error| format!("find this program: {error}"))?;
    let ourselves = ourselves.to_string_lossy().into_owned();
    let pairs = pairs.to_string();
    let command = [&ourselves, "compare", what, "--inside", "--pairs", &pairs, "--only", only];
    let output = lab::output(&command.map(str::to_owned), limit)?;
    let line = output.lines().find(|line| line.starts_with('['));
    let parsed = line.and_then(|line| serde_json::from_str(line).ok());
    parsed.ok_or_else(|| format!("the lab returned no results: {output}"))
}
