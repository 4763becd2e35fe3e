//! Evaluates a run of NCCL: whether it reaches the bandwidth of the machine, and likely bottlenecks if not.
//!
//! A run on several nodes is compared with the ports of one of them: by the bytes they transferred, if counted, else by the
//! bus bandwidth, which is what a ring sends over them. Within a node data uses NVLink or PCIe, and there is nothing to
//! compare with. Start at [`evaluate`].

mod bottlenecks;
mod failure;
mod ports;

use std::collections::BTreeMap;

use report::Verdict;
use report::nccl::Run;

use super::HostFacts;
use crate::CheckInput;
use ports::Ports;

/// The bytes that a node's ports transferred during a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transferred {
    /// Bytes of each port, `mlx5_0 port 1`: sent or received, whichever is more.
    pub bytes: BTreeMap<String, u64>,
    /// The highest rate of all ports together, over one second.
    pub busiest_gbps: f64,
}

impl Transferred {
    /// Whether no port transferred more than connection setup needs.
    fn is_idle(&self) -> bool {
        self.bytes.values().all(|bytes| *bytes < SETUP_BYTES)
    }
}

/// Evaluates a run with the facts of one of its nodes, and fills in its link rate and efficiency. `job_ports` are the ports
/// that a job should use there (`mlx5_0 port 1`); `None`: not known.
pub fn evaluate(
    run: &mut Run,
    node: Option<&CheckInput<'_>>,
    job_ports: Option<&[String]>,
    transferred: Option<&Transferred>,
) -> Verdict {
    if run.collective.rows.is_empty() {
        return failure::evaluate(run, node);
    }
    let mut verdict = match (run.collective.ranks, run.collective.hosts.len()) {
        (Some(1), _) => one_rank(),
        (_, 1) => within(run),
        _ => between(run, node, job_ports, transferred),
    };
    if run.has_failed() {
        let failed = failure::evaluate(run, node);
        verdict.summary = format!("{}; {}", failed.summary, verdict.summary);
        verdict.bottlenecks.splice(..0, failed.bottlenecks);
    }
    if run.earlier > 0 {
        verdict.notes.push(format!("the log has {} runs; this is the last", run.earlier + 1));
    }
    verdict.notes.extend(run.warnings.iter().cloned());
    verdict
}

fn one_rank() -> Verdict {
    Verdict {
        summary: "only one rank: nothing is transferred, and the bus bandwidth is 0 by definition"
            .to_owned(),
        notes: vec![ONE_RANK.to_owned()],
        ..Verdict::default()
    }
}

fn within(run: &Run) -> Verdict {
    Verdict {
        summary: measurements(run),
        reached_gbps: reached(run, 1.0),
        bottlenecks: bottlenecks::within(run),
        notes: vec![WITHIN.to_owned()],
        ..Verdict::default()
    }
}

fn between(
    run: &mut Run,
    node: Option<&CheckInput<'_>>,
    job_ports: Option<&[String]>,
    transferred: Option<&Transferred>,
) -> Verdict {
    let facts = node.map(HostFacts::new);
    let ports = facts.as_ref().and_then(|facts| Ports::used(run, facts, job_ports, transferred));
    let mut notes = Vec::new();
    let reached_gbps = match transferred {
        Some(transferred) if !transferred.is_idle() => Some(transferred.busiest_gbps),
        _ => port_share(run, &mut notes).and_then(|share| reached(run, share)),
    };
    let rate = ports.as_ref().map(Ports::rate_gbps);
    run.collective.link_gbps = rate;
    run.collective.efficiency = reached_gbps.zip(rate).map(|(reached, rate)| reached / rate);
    let expected_gbps = ports.as_ref().map(Ports::expected_gbps);
    let ratio = reached_gbps.zip(expected_gbps).map(|(reached, should)| reached / should);
    let bottlenecks = match ratio {
        Some(ratio) if ratio >= GOOD => Vec::new(),
        _ => bottlenecks::between(run, node, transferred, ports.as_ref()),
    };
    notes.extend(remarks(run, node, ports.is_some(), ratio));
    Verdict {
        summary: summary(run, ports.as_ref(), ratio, &bottlenecks),
        expected_gbps,
        bounds: ports.map(|ports| ports.bounds()).unwrap_or_default(),
        reached_gbps,
        ratio,
        bottlenecks,
        notes,
        expectation: None,
    }
}

/// The part of the bus bandwidth that a node's ports transfer.
fn port_share(run: &Run, notes: &mut Vec<String>) -> Option<f64> {
    let Some(operation) = run.operation() else {
        notes.push(RING.to_owned());
        return Some(1.0);
    };
    let share = operation.port_share(run.collective.ranks.unwrap_or(0), run.ranks_on_a_host());
    if share.is_none() {
        notes.push(format!("the traffic on ports of {operation} does not follow from its table"));
    }
    share
}

fn remarks(
    run: &Run,
    node: Option<&CheckInput<'_>>,
    has_ports: bool,
    ratio: Option<f64>,
) -> Vec<String> {
    let mut remarks = Vec::new();
    if ratio.is_some_and(|ratio| ratio > 1.0) {
        remarks.push(
            match run.nccl_log.reduces_in_switches || run.nccl_log.channels.nvlink_between_nodes > 0
            {
                true => MORE_BY_SWITCHES.to_owned(),
                false => MORE.to_owned(),
            },
        );
    }
    let name = node.and_then(|input| input.node.host.name.value());
    if let Some(name) = name.filter(|name| !took_part(run, name)) {
        remarks.push(format!(
            "compared with the ports of {name}, which is not one of the run's hosts ({})",
            run.collective.hosts.join(", ")
        ));
    }
    if !has_ports {
        remarks.push(NO_PORTS.to_owned());
    }
    remarks
}

/// Whether a host with this name took part. Programs print names without their domain.
pub fn took_part(run: &Run, name: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let hosts = &run.collective.hosts;
    hosts.is_empty() || hosts.iter().any(|host| short(host) == short(name))
}

fn summary(
    run: &Run,
    ports: Option<&Ports>,
    ratio: Option<f64>,
    bottlenecks: &[report::Bottleneck],
) -> String {
    let measurements = measurements(run);
    let measurements = match ports.zip(ratio) {
        Some((ports, ratio)) => {
            let end = if (GOOD..=1.0).contains(&ratio) { ": OK" } else { "" };
            format!(
                "{measurements}; {:.0} % of the {:.1} Gb/s expected of {}{end}",
                ratio * 100.0,
                ports.expected_gbps(),
                ports.name()
            )
        }
        None => measurements,
    };
    match bottlenecks.first() {
        Some(first) => format!("{}: {measurements}", first.what),
        None => measurements,
    }
}

fn measurements(run: &Run) -> String {
    let best = run.peak().map_or(0.0, |(_, peak)| peak);
    let average = run.average().unwrap_or(0.0);
    format!("bus bandwidth {best:.2} GB/s peak, {average:.2} GB/s average")
}

fn reached(run: &Run, share: f64) -> Option<f64> {
    run.peak().map(|(_, gigabytes)| gigabytes * 8.0 * share)
}

/// From this share of the expected bandwidth on, a run is OK: NCCL's own protocol has overhead.
const GOOD: f64 = 0.85;

/// Bytes that connection setup may need.
const SETUP_BYTES: u64 = 1 << 20;

const ONE_RANK: &str = "run two ranks or more to measure links; if mpirun started several, the program was built without MPI=1";
const WITHIN: &str =
    "all ranks are on one node: data uses NVLink, PCIe or host memory, and no port of the fabric";
const RING: &str = "the log does not name the operation; a ring operation is assumed";
const NO_PORTS: &str = "the ports of the nodes are not known: run this on a node of the run, or pass a snapshot of one \
                        (`wirelane snapshot`), to compare with its link rate";
const MORE: &str = "more than the link rate: NVLink switches (NVLS) and network switches (SHARP) reduce data on the path, and a \
                    tree sends less than a ring, so that the bus bandwidth can exceed the link rate; or NVLink connects the \
                    nodes. NCCL_DEBUG=INFO shows which";
const MORE_BY_SWITCHES: &str = "more than the link rate: NCCL reports that switches reduce data on the path (NVLS, SHARP) or that \
                                NVLink connects the nodes, so that not all of the bus bandwidth uses ports";

#[cfg(test)]
mod tests;
