//! `wirelane kv bench`: stores keys, requests them as fast as possible or at a fixed rate, verifies every value, and reports
//! rate and latency.
//!
//! Each client is a thread with its own connection (`runner.rs`, hot); `workload.rs` chooses the next request, `schedule.rs`
//! its time, `pattern.rs` verifies values.

mod cpu;
mod load;
mod pattern;
mod plan;
mod report;
mod runner;
mod schedule;
mod tally;
mod workload;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kv_client::Client;

use super::connector::{Connector, StoreArgs};
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use cpu::Meter;
pub(super) use plan::BenchArgs;
use plan::KvBenchPlan;
use report::Report;
use runner::Runner;
use tally::Tally;

pub(super) fn run(global: &Global, store: &StoreArgs, args: &BenchArgs) -> Result<Exit, Failure> {
    let mut connector = store.prepare(global)?;
    let plan = KvBenchPlan::new(args)?;
    connector.buffer = connector.buffer.or_else(|| plan.buffer());
    let mut clients = Vec::new();
    for _ in 0..plan.clients {
        clients.push(connector.connect()?);
    }
    plan.check_size(&clients[0])?;
    let link = clients[0].link_status();
    let loaded = load::load(&mut clients[0], &plan)?;
    if args.fill_only {
        return report_fill(&connector, &clients[0], args, &plan, loaded);
    }
    let meter = Meter::new(args.http.as_ref(), link.as_ref().map(|link| link.peer))?;
    let (tally, seconds, server_cpu_s) = measure(clients, &plan, &meter)?;
    let report = Report::new(&plan, &tally, seconds, server_cpu_s, link);
    match args.json {
        true => output::json(&report)?,
        false => output::text(&report.text())?,
    }
    match tally.first_error {
        Some(why) => {
            Err(Failure::no(format!("{} of {} requests failed: {why}", tally.errors, tally.ops)))
        }
        None => Ok(Exit::Done),
    }
}

/// Runs all clients in parallel.
fn measure(
    clients: Vec<Client>,
    plan: &KvBenchPlan,
    meter: &Meter,
) -> Result<(Tally, f64, Option<f64>), Failure> {
    let (progress, start) = (&AtomicU64::new(0), &Barrier::new(clients.len() + 1));
    let (mut all, mut seconds, mut spent) = (Tally::new(), 0.0, None);
    thread::scope(|scope| {
        let work = |(number, client)| {
            let mut runner = Runner::new(client, plan, number, progress);
            scope.spawn(move || {
                runner.warm_up();
                start.wait();
                runner.run()
            })
        };
        let threads: Vec<_> = clients.into_iter().enumerate().map(work).collect();
        start.wait();
        let (before, started) = (meter.read(), Instant::now());
        draw_progress(plan, progress, started, || {
            threads.iter().all(thread::ScopedJoinHandle::is_finished)
        });
        for thread in threads {
            let (tally, ended) = thread.join().expect("a client does not panic");
            all.add(tally);
            seconds = f64::max(seconds, ended.duration_since(started).as_secs_f64());
        }
        spent = meter.read().zip(before).map(|(after, before)| after - before);
    });
    Ok((all, seconds, spent))
}

/// Draws a progress bar on a terminal, until the clients have finished.
fn draw_progress(
    plan: &KvBenchPlan,
    progress: &AtomicU64,
    started: Instant,
    finished: impl Fn() -> bool,
) {
    let total = plan.steps();
    let Some(bar) = output::steps(total, "measuring") else { return };
    while !finished() {
        bar.set_position(match plan.duration {
            Some(_) => started.elapsed().as_millis() as u64,
            None => progress.load(Ordering::Relaxed),
        });
        thread::sleep(PROGRESS_INTERVAL);
    }
    bar.finish_and_clear();
}

fn report_fill(
    connector: &Connector,
    client: &Client,
    args: &BenchArgs,
    plan: &KvBenchPlan,
    seconds: f64,
) -> Result<Exit, Failure> {
    let (keys, size) = (plan.keys, plan.value_size);
    connector.report_interactive(
        client,
        &format!("stored {keys} values of {size} bytes in {seconds:.2} s"),
    );
    if args.json {
        output::json(&serde_json::json!({ "keys": keys, "value_size": size, "seconds": seconds }))?;
    }
    Ok(Exit::Done)
}

const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
