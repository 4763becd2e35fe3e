//! What ports did of late, for lines that show it.

use std::collections::{BTreeMap, VecDeque};

use super::summary::Moment;

/// The last results of each port, the oldest first. What was not known then is `None`.
#[derive(Debug, Default)]
pub(super) struct History {
    ports: BTreeMap<String, Past>,
}

/// The past of a port.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Bits in a second, both ways.
    pub(super) throughput: Ring,
    pub(super) errors: Ring,
    pub(super) congestion: Ring,
}

/// The last results.
pub(super) type Ring = VecDeque<Option<f64>>;

impl History {
    /// Takes in what is new. Ports that are not there any more are forgotten, unless nobody could look.
    pub(super) fn add(&mut self, moment: &Moment) {
        if moment.faults.iter().any(|run| run.collector == "rdma") {
            return;
        }
        self.ports.retain(|name, _| moment.ports.iter().any(|port| port.name() == *name));
        for port in &moment.ports {
            let past = self.ports.entry(port.name()).or_default();
            keep(&mut past.throughput, port.bits());
            keep(&mut past.errors, port.rates.errors_per_second);
            keep(&mut past.congestion, port.congestion());
        }
    }

    /// The past of a port by its name.
    pub(super) fn of(&self, port: &str) -> Option<&Past> {
        self.ports.get(port)
    }
}

fn keep(ring: &mut Ring, measurement: Option<f64>) {
    if ring.len() == LENGTH {
        ring.pop_front();
    }
    ring.push_back(measurement);
}

/// As many as the widest line shows.
pub(super) const LENGTH: usize = 120;
