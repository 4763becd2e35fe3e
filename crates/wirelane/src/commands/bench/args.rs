//! Arguments that several subcommands share.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use report::{Limit, Operation, Plan, Test, Transport};

use crate::arguments::size::{Size, seconds, seconds_or_none};
use crate::arguments::transport::TransportArg;

/// The transport and device.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Transport")]
pub(super) struct PathArgs {
    /// Transport: the best that both ends have (same host: shm; RDMA at both: verbs; else tcp), or only this one
    #[arg(long, value_name = "KIND", default_value = "auto")]
    pub(super) transport: TransportArg,

    /// Local RDMA device (default: chosen automatically)
    #[arg(long, value_name = "NAME")]
    pub(super) device: Option<String>,

    /// RDMA device of the peer (default: chosen automatically)
    #[arg(long, value_name = "NAME")]
    pub(super) peer_device: Option<String>,

    /// Port of the local device (default: an active one)
    #[arg(long, value_name = "N")]
    pub(super) port: Option<u8>,

    /// Local GID index (default: RoCE v2, routable)
    #[arg(long, value_name = "N")]
    pub(super) gid_index: Option<u32>,
}

/// The operations and their duration.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Measurement")]
pub(super) struct ShapeArgs {
    /// Operation to measure
    #[arg(long, value_name = "OPERATION", default_value = "write")]
    pub(super) op: Op,

    /// Bytes of one operation (default: 64KiB for bw; 8 for lat, rate and atomic; 1KiB with --ud)
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["sizes", "sweep"])]
    size: Option<Size>,

    /// Several sizes, in sequence
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', conflicts_with = "sweep")]
    sizes: Vec<Size>,

    /// Powers of two from one size to another (2..8MiB if no range is given)
    #[arg(long, value_name = "FROM..TO", num_args = 0..=1, default_missing_value = "2..8MiB")]
    #[arg(require_equals = true)]
    sweep: Option<Sweep>,

    /// Operations in flight on each queue pair or connection (default: 64; lat has one)
    #[arg(long, value_name = "N")]
    depth: Option<u32>,

    /// Queue pairs or connections on each rail
    #[arg(long, value_name = "N", default_value = "1")]
    qps: u32,

    /// Pairs of RDMA ports to use at the same time
    #[arg(long, value_name = "N", default_value = "1")]
    rails: u32,

    /// Both ends send at the same time
    #[arg(long)]
    both_ways: bool,

    /// Unreliable datagrams instead of reliable connections; needs --op send
    #[arg(long)]
    ud: bool,

    /// Compare received data with sent data
    #[arg(long)]
    verify: bool,

    /// Number of operations per size
    #[arg(long, value_name = "N", conflicts_with = "time")]
    count: Option<u64>,

    /// Seconds per size
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    time: Duration,

    /// Warm-up seconds before each size, not counted
    #[arg(long, alias = "warm-up", value_name = "SECONDS", default_value = "0.2")]
    #[arg(value_parser = seconds_or_none)]
    warmup: Duration,
}

/// An operation, as on the command line.
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
    /// The requested transport and the option that requests it; `None`: chosen automatically.
    pub(super) fn requested(&self, shape: &ShapeArgs) -> Option<(Transport, &'static str)> {
        let names_device = self.device.is_some()
            || self.peer_device.is_some()
            || self.port.is_some()
            || self.gid_index.is_some();
        match self.transport {
            TransportArg::Verbs => Some((Transport::Verbs, "requested by --transport")),
            TransportArg::Ofi => Some((Transport::Ofi, "requested by --transport")),
            TransportArg::Shm => Some((Transport::Shm, "requested by --transport")),
            TransportArg::Tcp => Some((Transport::Tcp, "requested by --transport")),
            TransportArg::Auto if names_device => {
                Some((Transport::Verbs, "requested by naming a device, port or GID"))
            }
            TransportArg::Auto if shape.ud => Some((Transport::Verbs, "datagrams need RDMA")),
            TransportArg::Auto => None,
        }
    }
}

impl ShapeArgs {
    /// One plan per size; the caller sets the transport.
    pub(super) fn plans(&self, test: Test, path: &PathArgs) -> Vec<Plan> {
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
            warm_up: Limit::Milliseconds(self.warmup.as_millis() as u64),
            verify: self.verify,
            datagrams: self.ud,
            device: path.device.clone(),
            peer_device: path.peer_device.clone(),
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

    /// The requested sizes.
    pub(super) fn bytes(&self, test: Test) -> Vec<u64> {
        if let Some(sweep) = self.sweep {
            // A latency test needs 8 bytes to detect a write.
            let min = if test == Test::Latency && self.op == Op::Write { 8 } else { 1 };
            return sweep.sizes().into_iter().filter(|size| *size >= min).collect();
        }
        if !self.sizes.is_empty() {
            return self.sizes.iter().map(|size| size.0 as u64).collect();
        }
        let default = match test {
            _ if self.op == Op::Atomic => 8,
            Test::Bandwidth if self.ud => 1024,
            Test::Bandwidth => 65536,
            Test::Latency | Test::Rate => 8,
        };
        vec![self.size.map_or(default, |size| size.0 as u64)]
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct CommandLine {
        #[command(flatten)]
        shape: ShapeArgs,
    }

    fn sizes(words: &[&str], test: Test) -> Result<Vec<u64>, String> {
        let line = CommandLine::try_parse_from([&["bw"], words].concat());
        line.map(|line| line.shape.bytes(test)).map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_are_parsed() {
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
