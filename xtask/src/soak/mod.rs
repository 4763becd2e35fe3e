//! `cargo xtask soak`: the store under load, with clients that are killed, stopped and disconnected, and
//! random bytes on its port; at the end a verdict whether anything grew, slowed down or failed.
//!
//! With `--abuse` it measures instead the effect of misbehaving clients on another client: `abuse/`.
//!
//! `load.rs` has the clients, `faults.rs` the injected faults, `sample.rs` the measurements, `verdict.rs` the rules.

mod abuse;
mod faults;
mod load;
mod proxy;
mod sample;
mod server;
mod verdict;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use crate::{Failure, shell};
use faults::Faults;
use load::LoadClients;
use sample::Sample;
use server::Server;
use verdict::Verdict;

#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    /// Duration in minutes
    #[arg(long, value_name = "N", default_value = "10")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    minutes: u32,

    /// Number of undisturbed clients; of four, two over shared memory, one over TCP, one via gRPC
    #[arg(long, value_name = "C", default_value = "4")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,

    /// More arguments for `wirelane serve`, such as "--when-full refuse" or "--data-dir DIR"
    #[arg(long, value_name = "ARGUMENTS", default_value = "", allow_hyphen_values = true)]
    serve_args: String,

    /// Measure instead the effect of misbehaving clients on another client
    #[arg(long, conflicts_with_all = ["minutes", "clients", "serve_args", "json"])]
    abuse: bool,

    /// Print each sample and the verdict as a JSON object in a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &SoakArgs) -> Result<ExitCode, Failure> {
    // Separately, so that the server is built as for users, without the clients' features.
    shell::run(&mut shell::cargo(&["build", "--release", "-q", "-p", "wirelane", "--bins"]))?;
    let load = ["build", "--release", "-q", "-p", "wirelane-kv-client", "--example", "load"];
    shell::run(&mut shell::cargo(&load))?;
    if args.abuse {
        return abuse::run();
    }
    let server = Server::start(&args.serve_args)?;
    let before = server.idle_state()?;
    let mut clients = LoadClients::start(&server, args.clients.into())?;
    let mut faults = Faults::start(&server)?;
    let length = Duration::from_secs(60) * args.minutes;
    let step = if length > LONG { Duration::from_secs(60) } else { Duration::from_secs(5) };
    let samples = watch(args, &server, &mut clients, &mut faults, length, step)?;
    let mut errors = clients.end();
    let (injected, wrong) = faults.end();
    errors.extend(wrong);
    let after = server.idle_state_after(&before)?;
    let verdict = Verdict::new(&samples, errors, &before, &after);
    match args.json {
        true => println!("{}", verdict.json(&injected)),
        false => println!("{injected}\n{verdict}"),
    }
    Ok(if verdict.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Takes samples until the end of the run.
fn watch(
    args: &SoakArgs,
    server: &Server,
    clients: &mut LoadClients,
    faults: &mut Faults,
    length: Duration,
    step: Duration,
) -> Result<Vec<Sample>, Failure> {
    let (started, mut samples) = (Instant::now(), Vec::new());
    let (mut last, mut due) = (started, step);
    if !args.json {
        println!("{}", Sample::HEAD);
    }
    while due <= length {
        while started.elapsed() < due {
            std::thread::sleep(Duration::from_millis(200));
            let doing = faults.step(started.elapsed())?;
            progress(started.elapsed(), length, doing);
        }
        due += step;
        let since = std::mem::replace(&mut last, Instant::now()).elapsed();
        let sample = Sample::take(server, clients, started.elapsed(), since)?;
        match args.json {
            true => println!("{}", sample.json()),
            false => println!("{sample}"),
        }
        samples.push(sample);
    }
    Ok(samples)
}

/// A progress line on a terminal.
fn progress(so_far: Duration, length: Duration, doing: &str) {
    if std::io::stderr().is_terminal() {
        let minutes =
            |time: Duration| format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60);
        eprint!("\r{} of {}  {doing:<40}\r", minutes(so_far), minutes(length));
    }
}

/// Longer runs are sampled once a minute.
const LONG: Duration = Duration::from_secs(600);
