//! What is measured: the arguments, and the checked plan.

use std::time::Duration;

use clap::{Args, ValueEnum};
use kv_client::Client;

use super::cpu::HttpUrl;
use super::workload::Dist;
use crate::arguments::size::{self, Size, seconds};
use crate::output::Failure;

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Number of requests of all clients
    #[arg(long, value_name = "N", default_value = "100000", conflicts_with = "duration")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,

    /// Run for this time, instead of a number of requests; with --rate, until all requests due in it are answered
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,

    /// Requests per second of all clients, at fixed times; latency then counts from the time at which a request is due, so that
    /// requests that wait for the store or for --depth are included (default: as fast as replies arrive)
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,

    /// Warm-up time, not counted
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    warmup: Option<Duration>,

    /// Size of each value
    #[arg(long, value_name = "SIZE", default_value = "4096")]
    value_size: Size,

    /// Fraction of requests that read, from 0.0 (only puts) to 1.0 (only gets)
    #[arg(long, value_name = "R", default_value = "0.95", value_parser = ratio)]
    read_ratio: f64,

    /// Requests in flight of each client
    #[arg(long, value_name = "D", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,

    /// Number of clients, each a thread with its own connection
    #[arg(long, value_name = "C", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: u32,

    /// Number of keys
    #[arg(long, value_name = "K", default_value = "1000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    keys: u32,

    /// Distribution of the requested keys
    #[arg(long, value_name = "KIND", default_value = "uniform")]
    dist: DistArg,

    /// What is compared of each value that is read: all of it, or its ends, the first and the last eight bytes, beside programs that
    /// do not look at what they receive
    #[arg(long, value_name = "PART", default_value = "all")]
    verify: Verified,

    /// Only store the keys, and measure nothing
    #[arg(long)]
    pub(super) fill_only: bool,

    /// HTTP address of the store, to read its CPU time [default: from /proc, if the store is local]
    #[arg(long, value_name = "URL")]
    pub(super) http: Option<HttpUrl>,

    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DistArg {
    Uniform,
    /// With theta 0.99, as in YCSB
    Zipf,
}

/// The compared part of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Verified {
    All,
    Ends,
}

impl Verified {
    pub(super) fn name(self) -> &'static str {
        match self {
            Verified::All => "all",
            Verified::Ends => "ends",
        }
    }
}

/// The checked plan.
#[derive(Debug)]
pub(super) struct KvBenchPlan {
    pub(super) ops: u64,
    pub(super) duration: Option<Duration>,
    /// Requests per second of all clients; `None`: as fast as possible.
    pub(super) rate: Option<f64>,
    pub(super) warmup: Option<Duration>,
    pub(super) value_size: usize,
    pub(super) read_ratio: f64,
    pub(super) depth: usize,
    pub(super) clients: usize,
    pub(super) keys: u32,
    pub(super) dist: Dist,
    pub(super) verify: Verified,
}

impl KvBenchPlan {
    pub(super) fn new(args: &BenchArgs) -> Result<Self, Failure> {
        let dist = match args.dist {
            DistArg::Uniform => Dist::Uniform,
            DistArg::Zipf => Dist::Zipf,
        };
        Ok(KvBenchPlan {
            ops: args.ops,
            duration: args.duration,
            rate: args.rate,
            warmup: args.warmup,
            value_size: args.value_size.0,
            read_ratio: args.read_ratio,
            depth: args.depth as usize,
            clients: args.clients as usize,
            keys: args.keys,
            dist,
            verify: args.verify,
        })
    }

    /// A client buffer larger than the default, if values in flight need it.
    pub(super) fn buffer(&self) -> Option<usize> {
        let wanted = self.value_size.saturating_mul(self.depth.max(2)).saturating_mul(3);
        (wanted > 64 << 20).then_some(wanted.min(MAX_BUFFER))
    }

    /// Fails if one request cannot transfer a value.
    pub(super) fn check_size(&self, client: &Client) -> Result<(), Failure> {
        let max = client.max_put_bytes();
        if self.value_size > max {
            let (size, max) = (size::format(self.value_size), size::format(max));
            return Err(Failure::usage(format!(
                "--value-size {size}: the maximum of one request with this store and --buffer is {max} — \
                 use smaller values"
            )));
        }
        Ok(())
    }

    /// The length of the progress bar: requests, or milliseconds.
    pub(super) fn steps(&self) -> u64 {
        self.duration.map_or(self.ops, |time| time.as_millis() as u64)
    }

    /// The number of requests of one client, unless the time limits them.
    pub(super) fn share(&self, client: usize) -> u64 {
        match (self.duration, self.rate) {
            (None, _) => self.part(self.ops, client),
            (Some(_), None) => u64::MAX,
            (Some(time), Some(rate)) => self.part(due_within(time, rate), client),
        }
    }

    /// The number of requests of one client in the warm-up at this rate.
    pub(super) fn warmup_share(&self, time: Duration, rate: f64, client: usize) -> u64 {
        self.part(due_within(time, rate), client)
    }

    /// The part of one client of so many requests.
    fn part(&self, ops: u64, client: usize) -> u64 {
        let clients = self.clients as u64;
        ops / clients + u64::from((client as u64) < ops % clients)
    }

    pub(super) fn op(&self) -> &'static str {
        match self.read_ratio {
            1.0 => "get",
            0.0 => "put",
            _ => "mixed",
        }
    }
}

/// The number of requests that are due within a time from the first.
fn due_within(time: Duration, rate: f64) -> u64 {
    (time.as_secs_f64() * rate).ceil() as u64
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.01..=1e9).contains(number));
    number.ok_or_else(|| "write requests per second, from 0.01 to 1000000000".to_owned())
}

fn ratio(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "write a number from 0.0 (only puts) to 1.0 (only gets)".to_owned())
}

const MAX_BUFFER: usize = 4 << 30;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn plan(words: &[&str]) -> Option<KvBenchPlan> {
        let line = Line::try_parse_from([&["bench"], words].concat()).ok()?;
        KvBenchPlan::new(&line.args).ok()
    }

    #[test]
    fn the_requests_of_all_clients_are_those_of_the_schedule() {
        let total = |words: &[&str]| {
            let plan = plan(&[words, &["--clients", "3"]].concat()).unwrap();
            (0..3).map(|client| plan.share(client)).sum::<u64>()
        };
        assert_eq!(total(&["--ops", "100", "--rate", "7"]), 100);
        assert_eq!(total(&["--duration", "2", "--rate", "50.5"]), 101);
        assert_eq!(total(&["--duration", "500ms", "--rate", "1"]), 1);
        let free = plan(&["--duration", "2"]).unwrap();
        assert_eq!(free.share(0), u64::MAX);
        for wrong in ["0", "-1", "x", "NaN", "inf"] {
            assert!(plan(&["--rate", wrong]).is_none(), "{wrong}");
        }
    }
}
