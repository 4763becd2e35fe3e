//! The ports of a node that a run used, and their expected bandwidth.

use report::Bound;
use report::nccl::Run;

use super::Transferred;
use crate::evaluation::bounds::{PCIE_PAYLOAD_RATIO, pcie_evidence};
use crate::evaluation::{HostFacts, PortFacts};

/// Ports that were used.
pub(super) struct Ports {
    used: Vec<PortFacts>,
    /// Active ports that were not used.
    pub(super) idle: Vec<String>,
}

impl Ports {
    /// The ports that NCCL names, else those of the job that transferred data, else all of the job. `None` if the node has
    /// no such port with a known rate.
    pub(super) fn used(
        run: &Run,
        facts: &HostFacts,
        job_ports: Option<&[String]>,
        transferred: Option<&Transferred>,
    ) -> Option<Ports> {
        let max_bytes = transferred
            .and_then(|transferred| transferred.bytes.values().max())
            .copied()
            .unwrap_or(0);
        let named =
            |port: &PortFacts| run.nccl_log.ports.contains(&port.name.replace(" port ", ":"));
        // A port of the storage network has no part in the job, and is not an idle rail of it.
        let is_of_job = |port: &PortFacts| {
            named(port) || job_ports.is_none_or(|job_ports| job_ports.contains(&port.name))
        };
        let known: Vec<PortFacts> = facts
            .ports
            .iter()
            .filter(|port| port.data_mbps.is_some() && is_of_job(port))
            .cloned()
            .collect();
        let is_busy = |port: &PortFacts| {
            let bytes =
                transferred.and_then(|transferred| transferred.bytes.get(&port.name)).copied();
            bytes.unwrap_or(0) > max_bytes / IDLE_DIVISOR
        };
        let (used, idle): (Vec<PortFacts>, Vec<PortFacts>) = if known.iter().any(named) {
            known.into_iter().partition(named)
        } else if max_bytes > 0 {
            known.into_iter().partition(is_busy)
        } else {
            (known, Vec::new())
        };
        let idle = idle.into_iter().map(|port| port.name).collect();
        (!used.is_empty()).then_some(Ports { used, idle })
    }

    /// The sum of their link rates.
    pub(super) fn rate_gbps(&self) -> f64 {
        self.used.iter().map(link_gbps).sum()
    }

    /// The same, limited by PCIe where a NIC's slot is slower than its links.
    pub(super) fn expected_gbps(&self) -> f64 {
        let nics = self.nics();
        nics.iter()
            .map(|nic| slot(nic).map_or(links_gbps(nic), |slot| slot.gbps.min(links_gbps(nic))))
            .sum()
    }

    /// Their limits, the lowest first.
    pub(super) fn bounds(&self) -> Vec<Bound> {
        let all = Bound {
            what: self.name(),
            gbps: self.rate_gbps(),
            evidence: self
                .used
                .iter()
                .map(|port| port.rate.as_str())
                .collect::<Vec<_>>()
                .join(" + "),
        };
        let narrow = self.narrow_slots().into_iter().map(|(slot, _)| slot);
        let mut bounds: Vec<Bound> = narrow.chain([all]).collect();
        bounds.sort_by(|one, other| one.gbps.total_cmp(&other.gbps));
        bounds
    }

    pub(super) fn name(&self) -> String {
        match self.used.as_slice() {
            [one] => one.name.clone(),
            [one, other] => format!("{} and {}", one.name, other.name),
            many => format!("{} ports", many.len()),
        }
    }

    /// The number of used ports.
    pub(super) fn used_count(&self) -> usize {
        self.used.len()
    }

    /// Slots that are slower than their NIC's links, with the rate of these.
    pub(super) fn narrow_slots(&self) -> Vec<(Bound, f64)> {
        let nics = self.nics();
        let slots = nics.iter().filter_map(|nic| Some((slot(nic)?, links_gbps(nic))));
        slots.filter(|(slot, links)| slot.gbps < *links).collect()
    }

    /// Ports of one NIC share its slot.
    fn nics(&self) -> Vec<Vec<&PortFacts>> {
        let mut nics: Vec<Vec<&PortFacts>> = Vec::new();
        for port in &self.used {
            let device = |port: &PortFacts| port.name.split(' ').next().map(str::to_owned);
            match nics.iter_mut().find(|nic| device(nic[0]) == device(port)) {
                Some(nic) => nic.push(port),
                None => nics.push(vec![port]),
            }
        }
        nics
    }
}

fn link_gbps(port: &PortFacts) -> f64 {
    port.data_mbps.unwrap_or(0) as f64 / 1e3
}

fn links_gbps(nic: &[&PortFacts]) -> f64 {
    nic.iter().map(|port| link_gbps(port)).sum()
}

/// The narrowest PCIe link above a NIC.
fn slot(nic: &[&PortFacts]) -> Option<Bound> {
    let narrowest =
        nic.first()?.hops.iter().min_by(|one, other| one.gbps.total_cmp(&other.gbps))?;
    Some(Bound {
        what: format!("{} ({})", narrowest.what, nic.first()?.name.split(' ').next()?),
        gbps: narrowest.gbps * PCIE_PAYLOAD_RATIO,
        evidence: pcie_evidence(&narrowest.evidence),
    })
}

/// A port that transferred less than the busiest one's bytes divided by this was not used.
const IDLE_DIVISOR: u64 = 50;
