//! What this node's RDMA ports carry while a run goes on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use doctor::verdict::Side;
use doctor::verdict::nccl::Transferred;
use measure::CounterReader;

use crate::commands::bench::facts;

/// Looks at the ports now and then.
pub(super) struct Counting {
    read: CounterReader,
    ports: Vec<String>,
    first: BTreeMap<String, u64>,
    last: (Instant, BTreeMap<String, u64>),
    busiest_gbps: f64,
}

impl Counting {
    /// From now on.
    pub(super) fn start(side: &Side) -> Counting {
        let ports: Vec<String> = side.ports.iter().map(|port| port.name.clone()).collect();
        let read = facts::counters();
        let first = read(&ports);
        Counting { last: (Instant::now(), first.clone()), first, read, ports, busiest_gbps: 0.0 }
    }

    /// Looks again, if a second has gone by: cards tell anew about that often.
    pub(super) fn look(&mut self) {
        let seconds = self.last.0.elapsed();
        if self.ports.is_empty() || seconds < SECOND {
            return;
        }
        let now = (self.read)(&self.ports);
        let bytes: u64 = moved(&self.ports, &self.last.1, &now).values().sum();
        self.busiest_gbps = self.busiest_gbps.max(bytes as f64 * 8.0 / 1e9 / seconds.as_secs_f64());
        self.last = (Instant::now(), now);
    }

    /// All of it.
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

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busier_direction_of_each_port_counts() {
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
            "what does not count is missing"
        );
    }
}
