//! Traffic of this node's RDMA ports during a run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use doctor::evaluation::HostFacts;
use doctor::evaluation::nccl::Transferred;
use measure::CounterReader;

use crate::commands::bench::facts;

/// Samples the ports' byte counters.
pub(super) struct PortTraffic {
    read: CounterReader,
    ports: Vec<String>,
    first: BTreeMap<String, u64>,
    last: (Instant, BTreeMap<String, u64>),
    busiest_gbps: f64,
}

impl PortTraffic {
    /// Starts counting: the job's ports, or all if it uses none.
    pub(super) fn start(host: &HostFacts, job_ports: &[String]) -> PortTraffic {
        let active = host.ports.iter().map(|port| port.name.clone());
        let ports: Vec<String> =
            active.filter(|port| job_ports.is_empty() || job_ports.contains(port)).collect();
        let read = facts::counters();
        let first = read(&ports);
        PortTraffic { last: (Instant::now(), first.clone()), first, read, ports, busiest_gbps: 0.0 }
    }

    /// Reads the counters if a second has passed: NICs update them about that often.
    pub(super) fn sample(&mut self) {
        let elapsed = self.last.0.elapsed();
        if self.ports.is_empty() || elapsed < SAMPLE_INTERVAL {
            return;
        }
        let now = (self.read)(&self.ports);
        let bytes: u64 = moved(&self.ports, &self.last.1, &now).values().sum();
        self.busiest_gbps = self.busiest_gbps.max(bytes as f64 * 8.0 / 1e9 / elapsed.as_secs_f64());
        self.last = (Instant::now(), now);
    }

    /// The traffic since the start.
    pub(super) fn end(self) -> Transferred {
        let now = (self.read)(&self.ports);
        Transferred {
            bytes: moved(&self.ports, &self.first, &now),
            busiest_gbps: self.busiest_gbps,
        }
    }
}

/// Bytes that each port sent or received, whichever is more.
fn moved(
    ports: &[String],
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let grown = |port: &str, metric: &str| {
        let key = format!("{port} {metric}");
        Some(after.get(&key)?.saturating_sub(*before.get(&key)?))
    };
    let port = |port: &String| {
        let both =
            [grown(port, "port_transmit_bytes_total"), grown(port, "port_receive_bytes_total")];
        Some((port.clone(), both.into_iter().flatten().max()?))
    };
    ports.iter().filter_map(port).collect()
}

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busier_direction_of_each_port_is_used() {
        let at = |sent: u64, received: u64| {
            BTreeMap::from([
                ("mlx5_0 port 1 port_transmit_bytes_total".to_owned(), sent),
                ("mlx5_0 port 1 port_receive_bytes_total".to_owned(), received),
            ])
        };
        let ports = ["mlx5_0 port 1".to_owned(), "mlx5_1 port 1".to_owned()];
        let moved = moved(&ports, &at(100, 100), &at(150, 400));
        assert_eq!(
            moved,
            BTreeMap::from([("mlx5_0 port 1".to_owned(), 300)]),
            "a port without counters is left out"
        );
    }
}
