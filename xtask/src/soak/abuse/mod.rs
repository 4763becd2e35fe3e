//! `cargo xtask soak --abuse`: the effect of misbehaving clients on another client.
//!
//! A measured client reads and writes values of 4 KiB, one at a time. It runs alone and disturbed alternately, a few
//! seconds each; the
//! table has the medians. The server is bound to one CPU and all others to another, since their placement by the system
//! would have a larger effect than most misbehaviour. There is no verdict: every client takes CPU time from others, so
//! the first row is a well-behaved client.

mod abuse_load;
mod kinds;
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
        "| {:<46} | over | repetitions/s | ops/s alone | disturbed | ratio | p99 µs alone | disturbed | ratio | errors |",
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

/// Measures the client alone and disturbed, alternately.
fn measure(kind: AbuseKind, server: &TestServer, transport: &str) -> Result<String, Failure> {
    let reads = if kind.refuses_writes() { "reads=100" } else { "reads=90" };
    let mut arguments = vec!["bytes=4096", "space=1", reads];
    let token = server.token("root").map(|token| format!("token={token}"));
    arguments.extend(token.as_deref());
    let measured = Client::start_with(&server.server.links, transport, 7, &arguments)?;
    // Time to write its keys.
    std::thread::sleep(Duration::from_secs(3));
    let [mut alone, mut under_abuse] = [const { Vec::new() }; 2];
    let (mut repetitions, mut errors) = (0.0, 0);
    // A server that is filled here stays full.
    kind.prepare(server)?;
    for _ in 0..ROUNDS {
        let calm = watch(&measured);
        let abuse_load = kind.begin(server)?;
        let disturbed = watch(&measured);
        repetitions += abuse_load.end() as f64;
        errors += calm.errors + calm.unknown + disturbed.errors + disturbed.unknown;
        alone.push(calm);
        under_abuse.push(disturbed);
        std::thread::sleep(PAUSE);
    }
    let seconds = LENGTH.as_secs_f64();
    let rate = |done: &Results| done.times.count() as f64 / seconds;
    let p99 = |done: &Results| done.times.quantile_us(0.99);
    let [calm, slow] = [&alone, &under_abuse].map(|rounds| median(rounds, rate));
    let [soon, late] = [&alone, &under_abuse].map(|rounds| median(rounds, p99));
    let (speed, delay) = (slow / calm, late / soon);
    let repetitions = repetitions / seconds / f64::from(ROUNDS);
    Ok(format!(
        "| {repetitions:.0} | {calm:.0} | {slow:.0} | {speed:.2} | {soon:.0} | {late:.0} | {delay:.2} | {errors} |"
    ))
}

/// The results of the measured client over [`LENGTH`].
fn watch(measured: &Client) -> Results {
    // Discards the results before.
    measured.take();
    std::thread::sleep(LENGTH);
    measured.take()
}

fn median(rounds: &[Results], of: impl Fn(&Results) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

const ROUNDS: u32 = 3;
const LENGTH: Duration = Duration::from_secs(3);
/// Time for the server to clean up half-open connections and sessions.
const PAUSE: Duration = Duration::from_secs(1);
