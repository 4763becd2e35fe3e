//! `cargo xtask compare exporter`: compares our exporter with node_exporter's infiniband collector, on one tree of eight
//! mlx5 ports.
//! It uses the published build, since resident memory depends on the build.
//!
//! A counter in the tree is changed before each scrape and must be in the answer: no exporter may return cached values.

mod tree;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::pairs::{Better, Subject, measure_pairs, print};
use super::tools;
use crate::{Failure, packages, shell};
use tree::Ports;

#[derive(Args)]
pub(super) struct ExporterArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// How often both are measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// How often each is scraped then
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    scrapes: u32,
    /// Install missing packages without asking
    #[arg(long)]
    yes: bool,
}

/// The measured exporter.
#[derive(Clone, Copy, PartialEq)]
enum Exporter {
    Ours,
    Theirs,
}

/// The results of a round.
struct Measurements {
    cpu_ms: f64,
    resident_mb: f64,
    samples: usize,
}

pub(super) fn run(args: &ExporterArgs) -> Result<(), Failure> {
    packages::ensure(&[packages::COMPARE_EXPORTER], args.yes)?;
    shell::run(&mut shell::cargo(&[
        "build",
        "--quiet",
        "--profile=final",
        "--package",
        "wirelane",
    ]))?;
    let ports = Ports::create(&shell::target().join("compare-exporter"))?;
    let measure = |exporter| measure(exporter, &ports, args.scrapes);
    let (ours, theirs) = (|| measure(Exporter::Ours), || measure(Exporter::Theirs));
    let pairs = measure_pairs("exporter", args.pairs, ours, theirs)?;
    let rows = [
        row(&pairs, "exporter, CPU of a scrape", "ms", |measurements| measurements.cpu_ms),
        row(&pairs, "exporter, resident", "MB", |measurements| measurements.resident_mb),
    ];
    if args.json {
        let samples = pairs.first().map(|(ours, theirs)| [ours.samples, theirs.samples]);
        let document = json!({
            "machine": tools::machine(), "ports": tree::PORTS, "pairs": args.pairs,
            "scrapes": args.scrapes, "samples": samples, "rows": rows,
        });
        println!("{document}");
    } else {
        print(&rows);
        if let Some((ours, theirs)) = pairs.first() {
            println!(
                "{} samples of {} ports; theirs {}",
                ours.samples,
                tree::PORTS,
                theirs.samples
            );
        }
    }
    Ok(())
}

fn row(
    pairs: &[(Measurements, Measurements)],
    name: &str,
    unit: &str,
    of: fn(&Measurements) -> f64,
) -> Value {
    let pairs: Vec<(f64, f64)> =
        pairs.iter().map(|(ours, theirs)| (of(ours), of(theirs))).collect();
    let subject =
        Subject { name, peer: "node_exporter, infiniband", unit, better: Better::Less, aim: 1.0 };
    subject.row(&pairs)
}

fn measure(exporter: Exporter, ports: &Ports, scrapes: u32) -> Result<Measurements, Failure> {
    let port = tools::free_port()?;
    let mut command = exporter.command(ports.root(), &port);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let program = Program(child.map_err(|error| format!("start {command:?}: {error}"))?);
    tools::wait_for_port(&port)?;
    // The first scrape is not measured.
    let mut samples = ports.scrape_fresh(|| get(&port))?;
    let before = program.cpu_ms()?;
    for _ in 0..scrapes {
        std::thread::sleep(PAUSE);
        samples = ports.scrape_fresh(|| get(&port))?;
    }
    let cpu_ms = (program.cpu_ms()? - before) / f64::from(scrapes);
    Ok(Measurements { cpu_ms, resident_mb: program.resident_mb()?, samples })
}

impl Exporter {
    fn command(self, root: &Path, port: &str) -> Command {
        let listen = format!("127.0.0.1:{port}");
        let mut command;
        match self {
            Exporter::Ours => {
                command = Command::new(shell::target().join("final/wirelane"));
                command.args(["exporter", "--no-gpu", "--no-host", "--rdma-interval", "0.1"]);
                command.args(["--listen", &listen, "--root"]).arg(root);
            }
            Exporter::Theirs => {
                command = Command::new("prometheus-node-exporter");
                command.args(["--collector.disable-defaults", "--collector.infiniband"]);
                command.arg(format!("--web.listen-address={listen}"));
                command.arg(format!("--path.sysfs={}", root.join("sys").display()));
            }
        }
        command
    }
}

/// A running exporter, killed on drop.
struct Program(Child);

impl Program {
    /// User and system time of all its threads.
    fn cpu_ms(&self) -> Result<f64, Failure> {
        let stat = self.proc("stat")?;
        // The name may contain spaces; fields are counted after it.
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        let sum = ticks(11).zip(ticks(12)).map(|(user, system)| user + system);
        // A tick of /proc is 10 ms on all supported systems.
        sum.map(|ticks| ticks * 10.0).ok_or_else(|| format!("/proc/PID/stat reads {stat}"))
    }

    fn resident_mb(&self) -> Result<f64, Failure> {
        let status = self.proc("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kilobytes.map(|kilobytes| kilobytes * 1024.0 / 1e6).ok_or_else(|| "no VmHWM".to_owned())
    }

    fn proc(&self, file: &str) -> Result<String, Failure> {
        let path = format!("/proc/{}/{file}", self.0.id());
        std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(port: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| format!("scrape port {port}: {error}");
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(failed)?;
    let request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    Ok(answer)
}

/// Longer than our refresh interval: within it, cached values would be returned.
const PAUSE: Duration = Duration::from_millis(110);
