//! `top` for scripts: one line of JSON per interval, or one table.

use std::sync::mpsc;

use doctor::monitoring::MachineSample;

use super::TopArgs;
use super::feed::FeedEvent;
use super::number::{bytes, gbps, short, time};
use super::summary::{GpuSummary, IntervalSummary, PortSummary};
use crate::output;
use crate::output::{Exit, Failure, wrap};
use crate::settings::Global;

pub(super) fn run(global: &Global, args: &TopArgs) -> Result<Exit, Failure> {
    let (sender, events) = mpsc::channel();
    // The feed runs until this sender is dropped.
    let _commands = args.feed(global, move |event| sender.send(event).is_ok())?;
    let limit = if args.once { Some(1) } else { args.count };
    let (mut before, mut printed) = (None, 0);
    for event in events {
        match event {
            FeedEvent::Sample(sample) => {
                // The first sample has nothing to compare with.
                if before.is_some() {
                    if !print(args, before.as_ref(), &sample)? {
                        return Ok(Exit::Done);
                    }
                    printed += 1;
                }
                before = Some(*sample);
            }
            FeedEvent::End => break,
            FeedEvent::Error(failure) => return Err(failure),
            FeedEvent::Recording(_, Some(why)) => output::warning(&why),
            FeedEvent::Recording(..) | FeedEvent::Reset | FeedEvent::Position(..) => {}
        }
        if limit == Some(printed) {
            return Ok(Exit::Done);
        }
    }
    // A recording with one sample.
    if let (0, Some(sample)) = (printed, &before) {
        print(args, None, sample)?;
    }
    Ok(Exit::Done)
}

/// Prints an interval. Returns false if stdout is closed.
fn print(
    args: &TopArgs,
    before: Option<&MachineSample>,
    sample: &MachineSample,
) -> Result<bool, Failure> {
    let mut summary = IntervalSummary::between(before, sample);
    summary.retain(|device| args.selects(device));
    if !args.json {
        return output::part(&table(&summary));
    }
    let line = serde_json::to_string(&summary)
        .map_err(|error| Failure::failed(format!("render JSON: {error}")))?;
    output::json_text(&format!("{line}\n"))
}

fn table(summary: &IntervalSummary) -> String {
    let host = doctor::one_line(summary.host.as_deref().unwrap_or("this machine"));
    let mut text = format!("{host}  {}\n", summary.time);
    // Units are as on the screen: bits and bytes differ in case.
    let titles = ["PORT", "NETDEV", "STATE", "Gb/s", "RX b/s", "TX b/s", "RX p/s", "TX p/s"];
    let titles = titles.into_iter().chain(["ERR/s", "CONG/s", "RETRY/s"]).map(str::to_owned);
    let mut rows: Vec<[String; 11]> = vec![std::array::from_fn(|_| String::new())];
    rows[0].iter_mut().zip(titles).for_each(|(cell, title)| *cell = title);
    rows.extend(summary.ports.iter().map(port));
    match summary.ports.is_empty() {
        true => text.push_str("no RDMA port\n"),
        false => text.push_str(&wrap::table(&rows, wrap::columns())),
    }
    for name in &summary.gone {
        text.push_str(&format!("{} is gone\n", doctor::one_line(name)));
    }
    if !summary.gpus.is_empty() {
        let titles = ["GPU", "NAME", "TEMP", "UTIL", "MEMORY", "POWER", "THROTTLE", "XID"];
        let rows = std::iter::once(titles.map(str::to_owned));
        let rows: Vec<_> = rows.chain(summary.gpus.iter().map(gpu)).collect();
        text.push_str(&wrap::table(&rows, wrap::columns()));
    }
    text.push_str(&wrap::fit(&rest(summary)));
    text
}

fn port(port: &PortSummary) -> [String; 11] {
    let word = |text: &Option<String>| text.as_deref().map_or(none(), doctor::one_line);
    let bits = |bytes: Option<f64>| rate(bytes.map(|bytes| bytes * 8.0));
    let speed = match (port.rate_mbps, port.expected_mbps) {
        (Some(rate), Some(expected)) if rate < expected => {
            format!("{} of {}", gbps(rate), gbps(expected))
        }
        (speed, _) => speed.map_or(none(), gbps),
    };
    let rates = &port.rates;
    [
        doctor::one_line(&port.name()),
        word(&port.netdev),
        port.state.map_or(none(), str::to_owned),
        speed,
        bits(rates.receive.bytes_per_second),
        bits(rates.transmit.bytes_per_second),
        rate(rates.receive.packets_per_second),
        rate(rates.transmit.packets_per_second),
        rate(rates.errors_per_second),
        rate(port.congestion()),
        rate(rates.retries_per_second),
    ]
}

fn gpu(gpu: &GpuSummary) -> [String; 8] {
    let reading = &gpu.gpu.reading;
    let memory = reading.memory_used_bytes.zip(reading.memory_total_bytes);
    let memory =
        memory.map(|(used, total)| format!("{} of {}", bytes(used as f64), bytes(total as f64)));
    let list = |words: Vec<String>| if words.is_empty() { none() } else { words.join(",") };
    [
        gpu.gpu.index.to_string(),
        gpu.gpu.name.as_deref().map_or(none(), doctor::one_line),
        reading.temperature_c.map_or(none(), |degrees| format!("{degrees} C")),
        reading.utilization_percent.map_or(none(), |percent| format!("{percent} %")),
        memory.unwrap_or_else(none),
        reading.power_mw.map_or(none(), |power| format!("{} W", power / 1000)),
        list(gpu.throttled().into_iter().map(doctor::one_line).collect()),
        list(reading.xids.keys().map(u64::to_string).collect()),
    ]
}

/// The machine, the store, the probe, and failed collectors.
fn rest(summary: &IntervalSummary) -> String {
    let usage = &summary.usage;
    let busy = usage.cpu_busy.map_or(none(), |busy| format!("{:.0} %", busy * 100.0));
    let free = usage.memory_available_bytes.zip(usage.memory_total_bytes);
    let free =
        free.map(|(free, all)| format!("{} free of {}", bytes(free as f64), bytes(all as f64)));
    let mut text = format!("cpu {busy}, memory {}\n", free.unwrap_or_else(none));
    if let Some(store) = &summary.store {
        let pool = store.pool_used_bytes.zip(store.pool_bytes);
        let pool = pool.map(|(used, all)| format!("{} of {}", bytes(used), bytes(all)));
        text.push_str(&format!(
            "store {}: {} hits/s, {} puts/s, pool {}\n",
            store.address,
            rate(store.hits_per_second),
            rate(store.puts_per_second),
            pool.unwrap_or_else(none)
        ));
    }
    if let Some(probe) = &summary.probe {
        let duration = |time_ns: Option<u64>| time_ns.map_or(none(), |ns| time(ns as f64, true));
        let (p50, p99, jitter) =
            (duration(probe.p50_ns), duration(probe.p99_ns), duration(probe.jitter_ns));
        let result = match &probe.why {
            Some(why) => why.clone(),
            None => format!(
                "p50 {p50}, p99 {p99}, jitter {jitter}, {} of {} lost",
                probe.lost, probe.sent
            ),
        };
        text.push_str(&format!("peer {}: {result}\n", probe.peer));
    }
    for run in &summary.failed_collectors {
        let why = run.why.as_deref().unwrap_or("incomplete data");
        text.push_str(&format!("{}: {}\n", run.collector, doctor::one_line(why)));
    }
    text
}

fn rate(number: Option<f64>) -> String {
    number.map_or(none(), short)
}

fn none() -> String {
    "–".to_owned()
}
