//! `wirelane kv bench`: loads keys, asks for them as fast as they come, checks every value, and says how fast
//! it was.
//!
//! One client is a thread with a connection of its own (`runner.rs`, hot); what it asks for next is
//! `workload.rs`, what proves a value is `pattern.rs`.

mod cpu;
mod load;
mod pattern;
mod plan;
mod report;
mod runner;
mod tally;
mod workload;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kv_client::Client;

use super::connector::{StoreArgs, StoreReach};
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use cpu::Meter;
pub(super) use plan::BenchArgs;
use plan::Plan;
use report::Report;
use runner::Runner;
use tally::Tally;

pub(super) fn run(global: &Global, way: &StoreArgs, args: &BenchArgs) -> Result<Exit, Failure> {
    let mut way = way.prepare(global)?;
    let plan = Plan::new(args)?;
    way.buffer = way.buffer.or_else(|| plan.buffer());
    let mut clients = Vec::new();
    for _ in 0..plan.clients {
        clients.push(way.connect()?);
    }
    plan.fits(&clients[0])?;
    let link = clients[0].explain();
    let loaded = load::load(&mut clients[0], &plan)?;
    if args.fill_only {
        return filled(&way, &clients[0], args, &plan, loaded);
    }
    let meter = Meter::new(args.http.as_ref(), link.as_ref().map(|link| link.peer))?;
    let (tally, seconds, server_cpu_s) = measure(clients, &plan, &meter)?;
    let report = Report::new(&plan, &tally, seconds, server_cpu_s, link);
    match args.json {
        true => output::json(&report)?,
        false => output::answer(&report.text())?,
    }
    match tally.first_error {
        Some(why) => {
            Err(Failure::no(format!("{} of {} went wrong: {why}", tally.errors, tally.ops)))
        }
        None => Ok(Exit::Done),
    }
}

/// All clients at once.
fn measure(
    clients: Vec<Client>,
    plan: &Plan,
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
        let (before, begun) = (meter.read(), Instant::now());
        draw(plan, progress, begun, || threads.iter().all(thread::ScopedJoinHandle::is_finished));
        for thread in threads {
            let (tally, ended) = thread.join().expect("a client does not panic");
            all.add(tally);
            seconds = f64::max(seconds, ended.duration_since(begun).as_secs_f64());
        }
        spent = meter.read().zip(before).map(|(after, before)| after - before);
    });
    Ok((all, seconds, spent))
}

/// How far it is, for who waits at a terminal.
fn draw(plan: &Plan, progress: &AtomicU64, begun: Instant, over: impl Fn() -> bool) {
    let total = plan.steps();
    let Some(bar) = output::steps(total, "measuring") else { return };
    while !over() {
        bar.set_position(match plan.duration {
            Some(_) => begun.elapsed().as_millis() as u64,
            None => progress.load(Ordering::Relaxed),
        });
        thread::sleep(GLANCE);
    }
    bar.finish_and_clear();
}

fn filled(
    way: &StoreReach,
    client: &Client,
    args: &BenchArgs,
    plan: &Plan,
    seconds: f64,
) -> Result<Exit, Failure> {
    let (keys, size) = (plan.keys, plan.value_size);
    way.tell_people(client, &format!("stored {keys} values of {size} bytes in {seconds:.2} s"));
    if args.json {
        output::json(&serde_json::json!({ "keys": keys, "value_size": size, "seconds": seconds }))?;
    }
    Ok(Exit::Done)
}

const GLANCE: Duration = Duration::from_millis(100);
