//! What several of the subcommands ask.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use report::{Limit, Operation, Plan, Test, Transport};

use crate::arguments::size::{Size, seconds, seconds_or_none};
use crate::arguments::transport;

/// By which way.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Transport")]
pub(super) struct PathArgs {
    /// By the best that both ends have (the same host: shm; RDMA at both: verbs; else tcp), or by this alone
    #[arg(long, value_name = "KIND", default_value = "auto")]
    pub(super) transport: transport::Transport,

    /// The RDMA device here (default: chosen)
    #[arg(long, value_name = "NAME")]
    pub(super) device: Option<String>,

    /// The RDMA device at the other end (default: chosen)
    #[arg(long, value_name = "NAME")]
    pub(super) peer_device: Option<String>,

    /// The device's port here (default: one that is active)
    #[arg(long, value_name = "N")]
    pub(super) port: Option<u8>,

    /// The GID's index here (default: RoCE v2, routable)
    #[arg(long, value_name = "N")]
    pub(super) gid_index: Option<u32>,
}

/// What is done, and how long.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The measurement")]
pub(super) struct ShapeArgs {
    /// By which operation
    #[arg(long, value_name = "OPERATION", default_value = "write")]
    pub(super) op: Op,

    /// Bytes of one operation (default: 64KiB for bw; 8 for lat, rate and atomic; 1KiB with --ud)
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["sizes", "sweep"])]
    size: Option<Size>,

    /// Several sizes, one after the other
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', conflicts_with = "sweep")]
    sizes: Vec<Size>,

    /// Powers of two from one size to another; 2..8MiB if none are given
    #[arg(long, value_name = "FROM..TO", num_args = 0..=1, default_missing_value = "2..8MiB")]
    #[arg(require_equals = true)]
    sweep: Option<Sweep>,

    /// Operations in flight on each queue pair or connection (default: 64; lat has one)
    #[arg(long, value_name = "N")]
    depth: Option<u32>,

    /// Queue pairs or connections on each rail
    #[arg(long, value_name = "N", default_value = "1")]
    qps: u32,

    /// Pairs of RDMA ports to use at once
    #[arg(long, value_name = "N", default_value = "1")]
    rails: u32,

    /// Both ends stream at once
    #[arg(long)]
    both_ways: bool,

    /// Unreliable datagrams instead of reliable connections; needs --op send
    #[arg(long)]
    ud: bool,

    /// Compare what arrived with what was sent
    #[arg(long)]
    verify: bool,

    /// So many operations for each size
    #[arg(long, value_name = "N", conflicts_with = "time")]
    count: Option<u64>,

    /// So many seconds for each size
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    time: Duration,

    /// Seconds that go before each, uncounted
    #[arg(long, value_name = "SECONDS", default_value = "0.2", value_parser = seconds_or_none)]
    warm_up: Duration,
}

/// An operation, as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Op {
    Write,
    Read,
    Send,
    Atomic,
}

/// Powers of two from one size to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sweep {
    from: usize,
    to: usize,
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write FROM..TO, such as 2..8MiB".to_owned();
        let (from, to) = text.split_once("..").ok_or_else(wrong)?;
        let (from, to) = (from.parse::<Size>()?.0, to.parse::<Size>()?.0);
        if from > to {
            return Err(wrong());
        }
        Ok(Sweep { from, to })
    }
}

impl Sweep {
    fn sizes(self) -> Vec<u64> {
        let first = self.from.next_power_of_two() as u64;
        std::iter::successors(Some(first), |size| size.checked_mul(2))
            .take_while(|size| *size <= self.to as u64)
            .collect()
    }
}

impl PathArgs {
    /// The transport that the user asks for, and by what; none: chosen.
    pub(super) fn asked(&self, shape: &ShapeArgs) -> Option<(Transport, &'static str)> {
        let by_device = self.device.is_some()
            || self.peer_device.is_some()
            || self.port.is_some()
            || self.gid_index.is_some();
        match self.transport {
            transport::Transport::Verbs => Some((Transport::Verbs, "asked for by --transport")),
            transport::Transport::Ofi => Some((Transport::Ofi, "asked for by --transport")),
            transport::Transport::Shm => Some((Transport::Shm, "asked for by --transport")),
            transport::Transport::Tcp => Some((Transport::Tcp, "asked for by --transport")),
            transport::Transport::Auto if by_device => {
                Some((Transport::Verbs, "asked for by naming a device, port or GID"))
            }
            transport::Transport::Auto if shape.ud => {
                Some((Transport::Verbs, "datagrams are RDMA's"))
            }
            transport::Transport::Auto => None,
        }
    }
}

impl ShapeArgs {
    /// One plan for each size; the transport is still to be set.
    pub(super) fn plans(&self, test: Test, way: &PathArgs) -> Vec<Plan> {
        let operation = self.operation();
        let plan = |size| Plan {
            depth: self.depth.unwrap_or(Plan::new(test, operation, Transport::Tcp, size).depth),
            lanes: self.qps,
            rails: self.rails,
            both_ways: self.both_ways,
            limit: match self.count {
                Some(count) => Limit::Count(count),
                None => Limit::Milliseconds(self.time.as_millis() as u64),
            },
            warm_up: Limit::Milliseconds(self.warm_up.as_millis() as u64),
            verify: self.verify,
            datagrams: self.ud,
            device: way.device.clone(),
            peer_device: way.peer_device.clone(),
            ..Plan::new(test, operation, Transport::Tcp, size)
        };
        self.bytes(test).into_iter().map(plan).collect()
    }

    /// The operation.
    pub(super) fn operation(&self) -> Operation {
        match self.op {
            Op::Write => Operation::Write,
            Op::Read => Operation::Read,
            Op::Send => Operation::Send,
            Op::Atomic => Operation::Atomic,
        }
    }

    /// The sizes that the user asks for.
    pub(super) fn bytes(&self, test: Test) -> Vec<u64> {
        if let Some(sweep) = self.sweep {
            // The least that a write can be seen by.
            let least = if test == Test::Latency && self.op == Op::Write { 8 } else { 1 };
            return sweep.sizes().into_iter().filter(|size| *size >= least).collect();
        }
        if !self.sizes.is_empty() {
            return self.sizes.iter().map(|size| size.0 as u64).collect();
        }
        let usual = match test {
            _ if self.op == Op::Atomic => 8,
            Test::Bandwidth if self.ud => 1024,
            Test::Bandwidth => 65536,
            Test::Latency | Test::Rate => 8,
        };
        vec![self.size.map_or(usual, |size| size.0 as u64)]
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        shape: ShapeArgs,
    }

    fn sizes(words: &[&str], test: Test) -> Result<Vec<u64>, String> {
        let line = Line::try_parse_from([&["bw"], words].concat());
        line.map(|line| line.shape.bytes(test)).map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_as_people_ask_for_them() {
        let bw = |words: &[&str]| sizes(words, Test::Bandwidth).expect("sizes");
        assert_eq!(bw(&[]), [65536]);
        assert_eq!(bw(&["--size", "1MiB"]), [1 << 20]);
        assert_eq!(bw(&["--sizes", "64,4KiB"]), [64, 4096]);
        assert_eq!(bw(&["--sweep=3..64"]), [4, 8, 16, 32, 64]);
        let all = bw(&["--sweep"]);
        assert_eq!((all.len(), all.first(), all.last()), (23, Some(&2), Some(&(8 << 20))));
        assert_eq!(sizes(&["--sweep"], Test::Latency).expect("sizes")[0], 8);
        assert_eq!(bw(&["--ud"]), [1024]);
        for wrong in
            [&["--sweep=8..2"][..], &["--sweep=x"], &["--size", "1", "--sweep"], &["--size", "0"]]
        {
            assert!(sizes(wrong, Test::Bandwidth).is_err(), "{wrong:?}");
        }
    }
}
