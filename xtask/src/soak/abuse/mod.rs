//! `cargo xtask soak --abuse`: what a client notices of others that misbehave.
//!
//! A bystander reads and writes values of 4 KiB, one at a time. It is left alone and disturbed in turns, a few seconds each; the
//! table has the medians. The server is bound to one CPU and everybody else to another, so that where the system puts
//! them does not matter: it would more than most of what is measured. Nothing here passes or fails: whoever uses a CPU takes it from others, so the first row is a
//! client that does nothing wrong.

mod kinds;
mod offender;
mod test_server;

use std::process::ExitCode;
use std::time::Duration;

use super::load::{Client, Results};
use crate::Failure;
use kinds::AbuseKind;
use test_server::TestServer;

pub(super) fn run() -> Result<ExitCode, Failure> {
    let ourselves = std::process::id().to_string();
    let bind = ["--all-tasks", "--cpu-list", "--pid", "0", &ourselves];
    crate::shell::output(std::process::Command::new("taskset").args(bind))?;
    let folder = crate::shell::target().join("xtask/abuse");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| format!("create {folder:?}: {error}"))?;
    println!(
        "| {:<46} | by | acts/s | ops/s alone | meanwhile | ratio | p99 µs alone | meanwhile | ratio | errors |",
        "others"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for kind in AbuseKind::ALL {
        let server = TestServer::open(kind, &folder)?;
        for transport in ["shm", "tcp"] {
            let row = measure(kind, &server, transport)?;
            println!("| {:<46} | {transport} {row}", kind.name());
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    Ok(ExitCode::SUCCESS)
}

/// Alone and disturbed, in turns.
fn measure(kind: AbuseKind, server: &TestServer, transport: &str) -> Result<String, Failure> {
    let reads = if kind.refuses_writes() { "reads=100" } else { "reads=90" };
    let mut told = vec!["bytes=4096", "space=1", reads];
    let token = server.token("root").map(|token| format!("token={token}"));
    told.extend(token.as_deref());
    let bystander = Client::start_with(&server.server.links, transport, 7, &told)?;
    // Its keys are written first.
    std::thread::sleep(Duration::from_secs(3));
    let [mut alone, mut meanwhile] = [const { Vec::new() }; 2];
    let (mut acts, mut errors) = (0.0, 0);
    // Where others have filled the place, it is full from then on.
    kind.prepare(server)?;
    for _ in 0..ROUNDS {
        let calm = watch(&bystander);
        let offender = kind.begin(server)?;
        let disturbed = watch(&bystander);
        acts += offender.end() as f64;
        errors += calm.errors + calm.unknown + disturbed.errors + disturbed.unknown;
        alone.push(calm);
        meanwhile.push(disturbed);
        std::thread::sleep(REST);
    }
    let seconds = LENGTH.as_secs_f64();
    let rate = |done: &Results| done.times.count() as f64 / seconds;
    let p99 = |done: &Results| done.times.quantile_us(0.99);
    let [calm, slow] = [&alone, &meanwhile].map(|rounds| median(rounds, rate));
    let [soon, late] = [&alone, &meanwhile].map(|rounds| median(rounds, p99));
    let (speed, delay) = (slow / calm, late / soon);
    let acts = acts / seconds / f64::from(ROUNDS);
    Ok(format!(
        "| {acts:.0} | {calm:.0} | {slow:.0} | {speed:.2} | {soon:.0} | {late:.0} | {delay:.2} | {errors} |"
    ))
}

/// What the bystander does for a while.
fn watch(bystander: &Client) -> Results {
    // What it does is told each second: up to here, and from here on.
    bystander.take();
    std::thread::sleep(LENGTH);
    bystander.take()
}

fn median(rounds: &[Results], of: impl Fn(&Results) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

const ROUNDS: u32 = 3;
const LENGTH: Duration = Duration::from_secs(3);
/// For what was disturbed to be over: half-open connections, clients that are taken apart.
const REST: Duration = Duration::from_secs(1);
