//! `wirelane top`: the fabric, live in a terminal, or as a line of JSON for each interval.
//!
//! A [`feed`] brings frames, from this machine or from a recording. Two of them make a [`summary::Moment`], which is what
//! there is to show; the [`screen`] and the [`stream`] are views of it.

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
use crate::output::{Exit, Failure};
use crate::settings::Global;
use crate::settings::Settings;
use crate::watch::{Plan, Watcher};
use feed::{FeedEvent, Live, Order, Player};
use probe::Prober;
use record::Recording;
use replay::Replay;
use store::StoreWatch;

#[derive(Debug, Args)]
#[command(
    after_help = "Keys: h on the screen shows them. docs/top.md has the JSON and the recording's format."
)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    host: HostArgs,

    /// Print JSON, one line for each interval, instead of the screen
    #[arg(long)]
    json: bool,

    /// Print one interval and end: a table, or with --json an object
    #[arg(long, conflicts_with = "count")]
    once: bool,

    /// How often to look: 1s, 500ms, 2
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,

    /// End after so many intervals
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Only these devices: mlx5_0, mlx5_*
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    device: Vec<String>,

    /// Where a store of this machine serves /metrics (default: 127.0.0.1:8080, if one is there)
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "replay")]
    store: Option<Peer>,

    /// Probe the way to this peer's `wirelane serve` with small messages: latency, jitter, loss
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "replay")]
    peer: Option<Peer>,

    #[command(flatten)]
    caller: CredentialArgs,

    /// Keep what is seen in this file, which must not be there yet
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,

    /// How long that file may become
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    record_max: Size,

    /// Show a recording instead of this machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "host_sys"])]
    replay: Option<PathBuf>,

    /// How many times faster than it was a recording is shown (default: 1; with --json, without waiting)
    #[arg(long, value_name = "TIMES", requires = "replay", value_parser = speed)]
    speed: Option<f64>,
}

pub(crate) fn run(global: &Global, args: &TopArgs) -> Result<Exit, Failure> {
    if args.json || args.once {
        return stream::run(global, args);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "top needs a terminal to draw on; for scripts there are --json (a line for each \
             interval) and --once (one look)",
        ));
    }
    screen::run(global, args)
}

impl TopArgs {
    /// Begins to bring frames; what is wrong with the arguments is said before.
    fn feed(
        &self,
        global: &Global,
        tell: impl Fn(FeedEvent) -> bool + Send + 'static,
    ) -> Result<Sender<Order>, Failure> {
        if let Some(path) = &self.replay {
            let speed = self.speed.or((!self.json && !self.once).then_some(1.0));
            return feed::start(Player { replay: Replay::open(path)?, speed }, tell);
        }
        // A look is a look: `interval` alone says how often there is one.
        let every = Duration::ZERO;
        let plan = Plan { rdma_every: every, gpu_every: every, ..Plan::default() };
        let host = self.host.clone();
        let most = self.record_max.0 as u64;
        let record = |path: &PathBuf| Recording::create(path, most);
        let live = Live {
            watcher: Watcher::start(move || host.tree(), plan)?,
            store: StoreWatch::start(self.store.as_ref())?,
            prober: self.prober(global)?,
            every: self.interval,
            recording: self.record.as_ref().map(record).transpose()?,
            record_max: most,
        };
        feed::start(live, tell)
    }

    fn prober(&self, global: &Global) -> Result<Option<Prober>, Failure> {
        let Some(peer) = self.peer.clone() else { return Ok(None) };
        let settings = Settings::load(global)?.settings;
        let links = endpoint::settings(global, &settings, self.caller.auth_method(global)?)?;
        let tickets = self.caller.tickets()?;
        Prober::start(probe::Plan { peer, links, tickets }).map(Some)
    }

    /// Whether a device was asked for.
    fn wants(&self, device: &str) -> bool {
        let fits = |wanted: &String| match wanted.strip_suffix('*') {
            Some(beginning) => device.starts_with(beginning),
            None => device == wanted,
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
    let wrong = || "write a time such as 1s, 500ms or 2, from 100ms to 3600s".to_owned();
    seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
}

fn speed(text: &str) -> Result<f64, String> {
    let times = text.strip_suffix('x').unwrap_or(text).parse::<f64>().ok();
    let times = times.filter(|times| (0.01..=1000.0).contains(times));
    times.ok_or_else(|| "write how many times, from 0.01 to 1000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_as_people_write_them() {
        assert_eq!(interval("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("2"), Ok(Duration::from_secs(2)));
        for wrong in ["", "s", "0", "50ms", "1h", "-1", "NaN", "4000s"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
        assert_eq!((speed("2x"), speed("0.5")), (Ok(2.0), Ok(0.5)));
        assert!(speed("0").is_err() && speed("inf").is_err());
    }
}
