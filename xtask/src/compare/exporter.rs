//! `cargo xtask compare exporter`: our exporter beside node_exporter's infiniband collector, over one tree of eight mlx5 ports. As it is
//! handed out: how much of a program is in memory depends on how it was built.
//!
//! A number in the tree is changed before each scrape and looked for in the answer: nobody is measured telling old news.

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

/// Who is measured.
#[derive(Clone, Copy, PartialEq)]
enum Exporter {
    Ours,
    Theirs,
}

/// What a round gave.
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
        let told = json!({
            "machine": tools::machine(), "ports": tree::PORTS, "pairs": args.pairs,
            "scrapes": args.scrapes, "samples": samples, "rows": rows,
        });
        println!("{told}");
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
    // What is done once is not what a scrape costs.
    let mut samples = ports.fresh(|| get(&port))?;
    let before = program.cpu_ms()?;
    for _ in 0..scrapes {
        std::thread::sleep(PAUSE);
        samples = ports.fresh(|| get(&port))?;
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

/// Ended with the round.
struct Program(Child);

impl Program {
    /// User and system time of all its threads.
    fn cpu_ms(&self) -> Result<f64, Failure> {
        let stat = self.proc("stat")?;
        // The name may hold spaces; fields are counted from its end.
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        let sum = ticks(11).zip(ticks(12)).map(|(user, system)| user + system);
        // A tick of /proc is a hundredth of a second on every Linux that we run on.
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
    let wrong = |error: std::io::Error| format!("scrape port {port}: {error}");
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).map_err(wrong)?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(wrong)?;
    let request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).map_err(wrong)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(wrong)?;
    Ok(answer)
}

/// Longer than our interval: within it, what was read would be told again.
const PAUSE: Duration = Duration::from_millis(110);
