//! `--tool perftest`: runs `ib_write_bw` and the like at both ends, with the device, port and GID that wirelane
//! chooses.

mod table;

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use measure::{PortId, PortPair, Transports};
use report::{
    Document, Latency, Operation, Outcome, Plan, Point, PointLatency, Test, Tool, Transport,
};

use super::args::{PathArgs, ShapeArgs};
use super::facts;
use super::run::PrintedPoint;
use super::target::Target;
use crate::output;
use crate::output::Failure;
use table::Row;

/// The two commands for one size.
struct Commands {
    server: Vec<String>,
    client: Vec<String>,
}

/// Measures each size, or only prints the commands and returns true.
pub(super) fn run(
    target: &Target,
    transports: &Transports,
    test: Test,
    (shape, path): (&ShapeArgs, &PathArgs),
    print: bool,
    document: &mut Document,
    mut show: impl FnMut(PrintedPoint<'_>) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let plans = shape.plans(test, path);
    let mut client = target.connect(transports)?;
    let pairs = client.pairs(path.device.as_ref(), path.peer_device.as_ref())?;
    let pair = pairs.first().ok_or_else(|| {
        Failure::failed(
            "no local RDMA port reaches a port of the peer — see `wirelane doctor --peer`",
        )
    })?;
    for plan in &plans {
        let commands = Commands::new(plan, pair, target)?;
        if print {
            let (server, client) = (commands.server.join(" "), commands.client.join(" "));
            output::answer(&format!("{}: {server}\nlocal: {client}\n", target.name))?;
            continue;
        }
        let row = commands.run(target)?;
        let point = point(plan, pair, &target.name, row);
        show(PrintedPoint { point: &point, is_first: document.points.is_empty() })?;
        document.points.push(point);
    }
    Ok(print)
}

impl Commands {
    fn new(plan: &Plan, pair: &PortPair, target: &Target) -> Result<Commands, Failure> {
        let program = program(plan)?;
        let at = |port: &PortId| {
            let mut words = vec![program.clone(), "-F".to_owned()];
            words.extend([
                "-d".to_owned(),
                port.device.clone(),
                "-i".to_owned(),
                port.port.to_string(),
            ]);
            words.extend(
                port.gid_index.iter().flat_map(|index| ["-x".to_owned(), index.to_string()]),
            );
            words.extend(flags(plan));
            words
        };
        let mut client = at(&pair.local);
        client.push(target.address().ip().to_string());
        Ok(Commands { server: at(&pair.peer), client })
    }

    /// Starts the server if possible, else the user does. The client is retried until the server listens.
    fn run(&self, target: &Target) -> Result<Row, Failure> {
        let mut server = self.start_server(target)?;
        let deadline = Instant::now() + SERVER_START_TIMEOUT;
        let row = loop {
            match self.try_client()? {
                Ok(row) => break Ok(row),
                Err(message) if Instant::now() > deadline || has_failed(&mut server) => {
                    break Err(Failure::failed(format!("{}: {message}", self.client.join(" "))));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(500)),
            }
        };
        if let Some(server) = &mut server {
            // It ends with its client; if the client failed, kill it.
            std::thread::sleep(Duration::from_millis(100));
            let _ = server.kill();
            let _ = server.wait();
        }
        row
    }

    fn start_server(&self, target: &Target) -> Result<Option<Child>, Failure> {
        let mut command = match target.ssh_host() {
            Some(host) => {
                let mut ssh = Command::new("ssh");
                ssh.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "--", host]);
                ssh.arg(self.server.join(" "));
                ssh
            }
            None if target.is_local() => {
                let mut own = Command::new(&self.server[0]);
                own.args(&self.server[1..]);
                own
            }
            None => {
                output::note(&format!("start this on {}: {}", target.name, self.server.join(" ")));
                return Ok(None);
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Some).map_err(|error| self.missing(&error))
    }

    /// The last row of its output, or its error message.
    fn try_client(&self) -> Result<Result<Row, String>, Failure> {
        let mut command = Command::new(&self.client[0]);
        command.args(&self.client[1..]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| self.missing(&error))?;
        let mut printed = String::new();
        if let Some(stdout) = child.stdout.take() {
            let _ = stdout.take(MAX_OUTPUT_BYTES).read_to_string(&mut printed);
        }
        let ended = child.wait_with_output().map_err(|error| self.missing(&error))?;
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        Ok(table::last(&printed).ok_or_else(|| {
            let message =
                errors.lines().chain(printed.lines()).find(|line| !line.trim().is_empty());
            doctor::one_line(message.unwrap_or("it printed nothing"))
        }))
    }

    fn missing(&self, error: &std::io::Error) -> Failure {
        let program = &self.client[0];
        Failure::failed(format!(
            "run {program}: {error} — install perftest: `apt install perftest`"
        ))
    }
}

/// Whether the server has ended with an error.
fn has_failed(server: &mut Option<Child>) -> bool {
    let ended = server.as_mut().and_then(|server| server.try_wait().ok().flatten());
    ended.is_some_and(|status| !status.success())
}

fn program(plan: &Plan) -> Result<String, Failure> {
    let test = match plan.test {
        Test::Bandwidth => "bw",
        Test::Latency => "lat",
        Test::Rate => {
            return Err(Failure::usage(
                "perftest has no rate test: use `bench bw`, which reports messages per second too",
            ));
        }
    };
    Ok(format!("ib_{}_{test}", plan.operation.name()))
}

fn flags(plan: &Plan) -> Vec<String> {
    let mut flags = Vec::new();
    let mut add = |flag: &str, value: String| flags.extend([flag.to_owned(), value]);
    if plan.operation != Operation::Atomic {
        add("-s", plan.size.to_string());
    }
    match plan.limit {
        report::Limit::Count(count) => add("-n", count.to_string()),
        // With -D, perftest prints no percentiles.
        report::Limit::Milliseconds(_) if plan.test == Test::Latency => {
            add("-n", LATENCY_SAMPLES.to_owned())
        }
        report::Limit::Milliseconds(ms) => add("-D", ms.div_ceil(1000).max(1).to_string()),
    }
    if plan.test == Test::Bandwidth {
        add("-q", plan.lanes.to_string());
        add("-t", plan.depth.to_string());
    }
    if plan.datagrams {
        add("-c", "UD".to_owned());
    }
    if plan.both_ways {
        flags.push("-b".to_owned());
    }
    flags
}

/// A point with only the values that perftest prints.
fn point(plan: &Plan, pair: &PortPair, to: &str, row: Row) -> Point {
    let outcome = Outcome {
        plan: Plan { transport: Transport::Verbs, ..plan.clone() },
        rails: vec![pair.rail.clone()],
        seconds: 0.0,
        operations: 0,
        bytes: 0,
        latency: Latency::default(),
        cpu_seconds: 0.0,
        peer_cpu_seconds: 0.0,
        lost: None,
        verified: None,
        counters: Default::default(),
        peer_counters: Default::default(),
    };
    let point = Point {
        tool: Tool::Perftest,
        seconds: None,
        cpu_seconds: None,
        peer_cpu_seconds: None,
        ..Point::new(&outcome, &facts::host(), to, "perftest uses RDMA")
    };
    match row {
        Row::Bandwidth { iterations, bytes_per_second, messages_per_second, size } => Point {
            operations: iterations,
            bytes: iterations.saturating_mul(size),
            bytes_per_second: Some(bytes_per_second),
            gbps: Some(bytes_per_second * 8.0 / 1e9),
            messages_per_second,
            ..point
        },
        latency => {
            Point { latency: point_latency(latency), operations: iterations(latency), ..point }
        }
    }
}

fn iterations(row: Row) -> u64 {
    match row {
        Row::Bandwidth { iterations, .. } | Row::Latency { iterations, .. } => iterations,
    }
}

fn point_latency(row: Row) -> Option<PointLatency> {
    let Row::Latency { iterations, min, max, typical, average, stdev, p99, p99_9, .. } = row else {
        return None;
    };
    let ns = |us: f64| (us * 1e3) as u64;
    Some(PointLatency {
        count: iterations,
        min_ns: ns(min),
        p50_ns: ns(typical),
        p90_ns: None,
        p99_ns: ns(p99),
        p99_9_ns: ns(p99_9),
        max_ns: ns(max),
        mean_ns: average * 1e3,
        stdev_ns: stdev * 1e3,
        jitter_ns: ns(p99).saturating_sub(ns(typical)),
        buckets: Vec::new(),
    })
}

/// Time for the server to start.
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_OUTPUT_BYTES: u64 = 1 << 20;
/// Enough samples for p99.9.
const LATENCY_SAMPLES: &str = "5000";
