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

    /// Run for this time, instead of a number of requests
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,

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

/// The checked plan.
#[derive(Debug)]
pub(super) struct KvBenchPlan {
    pub(super) ops: u64,
    pub(super) duration: Option<Duration>,
    pub(super) warmup: Option<Duration>,
    pub(super) value_size: usize,
    pub(super) read_ratio: f64,
    pub(super) depth: usize,
    pub(super) clients: usize,
    pub(super) keys: u32,
    pub(super) dist: Dist,
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
            warmup: args.warmup,
            value_size: args.value_size.0,
            read_ratio: args.read_ratio,
            depth: args.depth as usize,
            clients: args.clients as usize,
            keys: args.keys,
            dist,
        })
    }

    /// A receive buffer larger than the default, if values in flight need it.
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

    /// The number of requests of one client.
    pub(super) fn share(&self, client: usize) -> u64 {
        let clients = self.clients as u64;
        match self.duration {
            Some(_) => u64::MAX,
            None => self.ops / clients + u64::from((client as u64) < self.ops % clients),
        }
    }

    pub(super) fn op(&self) -> &'static str {
        match self.read_ratio {
            1.0 => "get",
            0.0 => "put",
            _ => "mixed",
        }
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "write a number from 0.0 (only puts) to 1.0 (only gets)".to_owned())
}

const MAX_BUFFER: usize = 4 << 30;
