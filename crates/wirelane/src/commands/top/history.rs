//! Recent values of each port, for sparklines.

use std::collections::{BTreeMap, VecDeque};

use super::summary::IntervalSummary;

/// Recent values of each port, the oldest first. An unknown value is `None`.
#[derive(Debug, Default)]
pub(super) struct History {
    ports: BTreeMap<String, PortHistory>,
}

/// Recent values of a port.
#[derive(Debug, Default)]
pub(super) struct PortHistory {
    /// Bits per second, both directions.
    pub(super) throughput: Ring,
    pub(super) errors: Ring,
    pub(super) congestion: Ring,
}

/// Recent values.
pub(super) type Ring = VecDeque<Option<f64>>;

impl History {
    /// Adds an interval. Ports that are gone are dropped, unless the collector failed.
    pub(super) fn add(&mut self, summary: &IntervalSummary) {
        if summary.failed_collectors.iter().any(|run| run.collector == "rdma") {
            return;
        }
        self.ports.retain(|name, _| summary.ports.iter().any(|port| port.name() == *name));
        for port in &summary.ports {
            let history = self.ports.entry(port.name()).or_default();
            push(&mut history.throughput, port.bits());
            push(&mut history.errors, port.rates.errors_per_second);
            push(&mut history.congestion, port.congestion());
        }
    }

    /// The history of a port.
    pub(super) fn of(&self, port: &str) -> Option<&PortHistory> {
        self.ports.get(port)
    }
}

fn push(ring: &mut Ring, measurement: Option<f64>) {
    if ring.len() == LENGTH {
        ring.pop_front();
    }
    ring.push_back(measurement);
}

/// The width of the widest sparkline.
pub(super) const LENGTH: usize = 120;
