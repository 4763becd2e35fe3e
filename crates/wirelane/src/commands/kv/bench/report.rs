//! The results, as text and as JSON.

use fabric::link::LinkStatus;
use serde::Serialize;

use super::plan::KvBenchPlan;
use super::tally::Tally;
use crate::arguments::size;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    transport: &'static str,
    why: String,
    op: &'static str,
    value_size: usize,
    depth: usize,
    clients: usize,
    keys: u32,
    dist: &'static str,
    read_ratio: f64,
    ops: u64,
    seconds: f64,
    /// `null`: as fast as possible. Otherwise latency counts from the time at which a request is due.
    intended_ops_per_s: Option<f64>,
    ops_per_s: f64,
    /// Of values read and written.
    bytes_per_s: f64,
    latency_us: Latency,
    /// The number of values that were compared, and what of each: `all` or `ends`.
    verified: u64,
    verified_part: &'static str,
    errors: u64,
    /// `null`: the store is not local, and --http is not given.
    server_cpu_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Report {
    pub(super) fn new(
        plan: &KvBenchPlan,
        tally: &Tally,
        seconds: f64,
        server_cpu_s: Option<f64>,
        link: Option<LinkStatus>,
    ) -> Self {
        let (transport, why) = match link {
            Some(link) => (link.transport.unwrap_or("none"), link.why),
            None => ("none", "the connection was lost".to_owned()),
        };
        let ops_per_s = tally.ops as f64 / seconds.max(1e-9);
        let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(|part| tally.quantile_us(part));
        Report {
            transport,
            why,
            op: plan.op(),
            value_size: plan.value_size,
            depth: plan.depth,
            clients: plan.clients,
            keys: plan.keys,
            dist: plan.dist.name(),
            read_ratio: plan.read_ratio,
            ops: tally.ops,
            seconds,
            intended_ops_per_s: plan.rate,
            ops_per_s,
            bytes_per_s: ops_per_s * plan.value_size as f64,
            latency_us: Latency { p50, p99, p999, max },
            verified: tally.verified,
            verified_part: plan.verify.name(),
            errors: tally.errors,
            server_cpu_s,
        }
    }

    /// As text.
    pub(super) fn text(&self) -> String {
        let Report { transport, why, op, depth, clients, keys, dist, ops, seconds, .. } = self;
        let Latency { p50, p99, p999, max } = &self.latency_us;
        let value_size = size::format(self.value_size);
        let intended =
            self.intended_ops_per_s.map_or(String::new(), |rate| format!(" of {rate} intended"));
        let since = match self.intended_ops_per_s {
            Some(_) => " from the intended start",
            None => "",
        };
        let cpu = self
            .server_cpu_s
            .map_or(String::new(), |spent| format!("; the store used {spent:.2} s of CPU time"));
        format!(
            "{op} of {value_size}, {clients} clients, depth {depth}, {keys} keys {dist}, over {transport} \
             ({why})\n\
             {:.0} ops/s{intended}, {:.3} GB/s ({ops} in {seconds:.2} s)\n\
             latency{since}  p50 {p50:.1} µs  p99 {p99:.1} µs  p99.9 {p999:.1} µs  max {max:.1} µs\n\
             {}{} values verified, {} errors{cpu}\n",
            self.ops_per_s,
            self.bytes_per_s / 1e9,
            if self.verified_part == "ends" { "the ends of " } else { "" },
            self.verified,
            self.errors,
        )
    }
}
