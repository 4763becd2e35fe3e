//! `wirelane top`: live view of the fabric in a terminal, or one line of JSON per interval.
//!
//! A [`feed`] delivers samples, from this machine or from a recording. Two of them give a [`summary::IntervalSummary`];
//! the [`screen`] and the [`stream`] display it.

mod feed;
mod findings;
mod history;
mod issue;
mod metrics;
mod number;
mod probe;
mod rates;
mod record;
mod replay;
mod screen;
mod store;
mod stream;
mod summary;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;

use clap::Args;

use crate::arguments::credentials::CredentialArgs;
use crate::arguments::host::HostArgs;
use crate::arguments::peer::Peer;
use crate::arguments::size::Size;
use crate::links::endpoint;
use crate::monitoring::{CollectionPlan, Monitor};
use crate::output::{Exit, Failure};
use crate::settings::Global;
use crate::settings::Settings;
use feed::{FeedCommand, FeedEvent, Live, Replayer};
use probe::Prober;
use record::Recording;
use replay::Replay;
use store::StorePoller;

#[derive(Debug, Args)]
#[command(
    after_help = "Press h for the keys. docs/top.md describes the JSON and the format of recordings."
)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    host: HostArgs,

    /// Print one line of JSON per interval instead of the screen
    #[arg(long)]
    json: bool,

    /// Print one interval and exit: a table, or with --json an object
    #[arg(long, conflicts_with = "count")]
    once: bool,

    /// Sampling interval: 1s, 500ms, 2
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,

    /// Exit after this many intervals
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Only these devices: mlx5_0, mlx5_*
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    device: Vec<String>,

    /// Address of a store's /metrics (default, without --root: 127.0.0.1:8080, if one listens there)
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "replay")]
    store: Option<Peer>,

    /// Probe this peer's `wirelane serve` with small messages: latency, jitter, loss
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "replay")]
    peer: Option<Peer>,

    #[command(flatten)]
    caller: CredentialArgs,

    /// Record to this file, which must not exist
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,

    /// Maximum size of the recording
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    record_max: Size,

    /// Replay a recording instead of watching this machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "host_sys"])]
    replay: Option<PathBuf>,

    /// Replay speed as a factor (default: 1; with --json, as fast as possible)
    #[arg(long, value_name = "TIMES", requires = "replay", value_parser = speed)]
    speed: Option<f64>,
}

pub(crate) fn run(global: &Global, args: &TopArgs) -> Result<Exit, Failure> {
    if args.json || args.once {
        return stream::run(global, args);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "top needs a terminal; for scripts use --json (one line per interval) or --once (one interval)",
        ));
    }
    screen::run(global, args)
}

impl TopArgs {
    /// Starts the feed; invalid arguments are errors.
    fn feed(
        &self,
        global: &Global,
        send: impl Fn(FeedEvent) -> bool + Send + 'static,
    ) -> Result<Sender<FeedCommand>, Failure> {
        if let Some(path) = &self.replay {
            let speed = self.speed.or((!self.json && !self.once).then_some(1.0));
            return feed::start(Replayer { replay: Replay::open(path)?, speed }, send);
        }
        // Collectors read for every sample: only `interval` sets how often.
        let every = Duration::ZERO;
        let plan =
            CollectionPlan { rdma_every: every, gpu_every: every, ..CollectionPlan::default() };
        let host = self.host.clone();
        let max_bytes = self.record_max.0 as u64;
        let record = |path: &PathBuf| Recording::create(path, max_bytes);
        let live = Live {
            monitor: Monitor::start(move || host.tree(), plan)?,
            store: self.store_poller()?,
            prober: self.prober(global)?,
            interval: self.interval,
            recording: self.record.as_ref().map(record).transpose()?,
            record_max: max_bytes,
        };
        feed::start(live, send)
    }

    /// The named store, or else the one of this machine; with `--root` of another machine there is none by default.
    fn store_poller(&self) -> Result<Option<StorePoller>, Failure> {
        let is_watched = self.store.is_some() || self.host.is_this_machine();
        is_watched.then(|| StorePoller::start(self.store.as_ref())).transpose()
    }

    fn prober(&self, global: &Global) -> Result<Option<Prober>, Failure> {
        let Some(peer) = self.peer.clone() else { return Ok(None) };
        let settings = Settings::load(global)?.settings;
        let links = endpoint::settings(global, &settings, self.caller.auth_method(global)?)?;
        let tickets = self.caller.tickets()?;
        Prober::start(probe::ProbeTarget { peer, links, tickets }).map(Some)
    }

    /// Whether `--device` selects a device.
    fn selects(&self, device: &str) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => device.starts_with(prefix),
            None => device == pattern,
        };
        self.device.is_empty() || self.device.iter().any(fits)
    }
}

/// `1s`, `500ms`, `2`: from a tenth of a second to an hour.
fn interval(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let seconds = number.trim().parse::<f64>().ok().map(|number| number * unit);
    let seconds = seconds.filter(|seconds| (0.1..=3600.0).contains(seconds));
    let wrong = || "expected a time such as 1s, 500ms or 2, from 100ms to 3600s".to_owned();
    seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
}

fn speed(text: &str) -> Result<f64, String> {
    let times = text.strip_suffix('x').unwrap_or(text).parse::<f64>().ok();
    let times = times.filter(|times| (0.01..=1000.0).contains(times));
    times.ok_or_else(|| "expected a factor from 0.01 to 1000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_parsed() {
        assert_eq!(interval("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("2"), Ok(Duration::from_secs(2)));
        for wrong in ["", "s", "0", "50ms", "1h", "-1", "NaN", "4000s"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
        assert_eq!((speed("2x"), speed("0.5")), (Ok(2.0), Ok(0.5)));
        assert!(speed("0").is_err() && speed("inf").is_err());
    }

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        top: TopArgs,
    }

    #[test]
    fn the_store_of_this_machine_is_not_shown_for_another_machine() {
        let is_watched = |arguments: &[&str]| {
            let command = clap::Parser::try_parse_from([&["top"], arguments].concat());
            let Command { top } = command.expect("arguments");
            top.store_poller().expect("a thread").is_some()
        };
        assert!(is_watched(&[]));
        assert!(!is_watched(&["--root", "other.json"]));
        assert!(is_watched(&["--root", "other.json", "--store", "127.0.0.1:1"]));
    }
}
