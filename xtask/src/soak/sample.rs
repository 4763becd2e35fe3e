//! A sample of the clients and the server.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::load::{LoadClients, Results};
use super::server::Server;
use crate::Failure;

/// Latencies: counts in buckets, eight for each power of two of nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Times(BTreeMap<u32, u64>);

/// One sample.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) seconds: u64,
    pub(super) ops_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) errors: u64,
    pub(super) rss_mib: f64,
    pub(super) pool_mib: f64,
    /// NaN without a disk.
    pub(super) disk_mib: f64,
    /// Values loaded from the disk so far.
    pub(super) loads: f64,
    pub(super) descriptors: f64,
    pub(super) threads: f64,
    pub(super) pins: f64,
    pub(super) clients: f64,
    pub(super) sessions: f64,
}

impl Sample {
    pub(super) const HEAD: &str = "  time    ops/s   p50 µs   p99 µs errors  RSS MiB pool MiB disk MiB   loads  fds threads  pins \
                                   clients sessions";

    pub(super) fn take(
        server: &Server,
        clients: &mut LoadClients,
        at: Duration,
        since: Duration,
    ) -> Result<Self, Failure> {
        let Results { times, unknown, errors, .. } = clients.take();
        let metrics = server.metrics()?;
        let value = |name: &str| metrics.get(name).copied().unwrap_or(f64::NAN);
        let mib = |name: &str| value(name) / f64::from(1 << 20);
        Ok(Sample {
            seconds: at.as_secs(),
            ops_per_s: times.count() as f64 / since.as_secs_f64(),
            p50_us: times.quantile_us(0.5),
            p99_us: times.quantile_us(0.99),
            // No faults are injected for these clients, so unknown outcomes are errors.
            errors: errors + unknown,
            rss_mib: mib("process_resident_memory_bytes"),
            pool_mib: mib("pool_used_bytes"),
            disk_mib: mib("disk_bytes"),
            loads: value("disk_loads_total"),
            descriptors: value("process_open_fds"),
            threads: value("process_threads"),
            pins: value("store_pins"),
            clients: value("store_clients"),
            sessions: value("store_sessions{protocol=\"link\"}"),
        })
    }

    pub(super) fn json(&self) -> String {
        serde_json::json!({
            "seconds": self.seconds, "ops_per_s": self.ops_per_s, "p50_us": self.p50_us,
            "p99_us": self.p99_us, "errors": self.errors, "rss_mib": self.rss_mib,
            "pool_mib": self.pool_mib, "disk_mib": self.disk_mib, "loads": self.loads,
            "descriptors": self.descriptors, "threads": self.threads,
            "pins": self.pins, "clients": self.clients, "sessions": self.sessions,
        })
        .to_string()
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sample { seconds, ops_per_s, p50_us, p99_us, errors, rss_mib, pool_mib, .. } = self;
        let Sample { disk_mib, loads, descriptors, threads, pins, clients, sessions, .. } = self;
        let (disk, loads) = match disk_mib.is_nan() {
            true => ("-".to_owned(), "-".to_owned()),
            false => (format!("{disk_mib:.1}"), format!("{loads:.0}")),
        };
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        write!(
            f,
            "{minutes:>3}:{seconds:02} {ops_per_s:>8.0} {p50_us:>8.1} {p99_us:>8.1} {errors:>6} {rss_mib:>8.1} \
             {pool_mib:>8.1} {disk:>8} {loads:>7} {descriptors:>4} {threads:>7} {pins:>5} {clients:>7} {sessions:>8}"
        )
    }
}

impl Times {
    /// Parses a client's format: `bucket:count,…`.
    pub(super) fn parse(text: &str) -> Self {
        let one = |pair: &str| {
            let (at, count) = pair.split_once(':')?;
            Some((at.parse().ok()?, count.parse().ok()?))
        };
        Times(text.split(',').filter_map(one).collect())
    }

    pub(super) fn add(&mut self, other: &Times) {
        other.0.iter().for_each(|(at, count)| *self.0.entry(*at).or_default() += count);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// A quantile (0.0 to 1.0) in microseconds.
    pub(super) fn quantile_us(&self, quantile: f64) -> f64 {
        let wanted = (self.count() as f64 * quantile).ceil() as u64;
        let mut seen = 0;
        let bucket = self.0.iter().find(|(_, count)| {
            seen += *count;
            seen >= wanted
        });
        bucket.map_or(0.0, |(at, _)| (f64::from(at % 8 + 9) / 8.0) * f64::from(at / 8).exp2() / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_ends_of_buckets() {
        let times = Times::parse("80:98,88:1,96:1");
        assert_eq!(times.count(), 100);
        assert_eq!(times.quantile_us(0.5), 1.152);
        assert_eq!(times.quantile_us(0.99), 2.304);
        assert_eq!(times.quantile_us(1.0), 4.608);
        assert_eq!(Times::parse("").quantile_us(0.5), 0.0);
    }
}
