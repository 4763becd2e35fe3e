//! Whether a run of NCCL is what the machine should give, and what holds it back if not.
//!
//! Between nodes it is judged by the ports of one of them: by what they transferred, where that was counted, else by the bus
//! bandwidth, which is what a ring sends over them. Within a node bytes go by NVLink or PCIe, and there is nothing to compare
//! with. Start at [`judge`].

mod failure;
mod likely;
mod ports;

use std::collections::BTreeMap;

use report::Verdict;
use report::nccl::Run;

use super::Side;
use crate::Case;
use ports::Ports;

/// What a node's ports transferred while a run went on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transferred {
    /// Bytes of each port, `mlx5_0 port 1`: sent or received, whichever is more.
    pub bytes: BTreeMap<String, u64>,
    /// All ports together, in the second in which it was most.
    pub busiest_gbps: f64,
}

impl Transferred {
    /// Whether no port transferred more than what setting up takes.
    fn is_idle(&self) -> bool {
        self.bytes.values().all(|bytes| *bytes < SET_UP)
    }
}

/// Judges a run by what is known of one of its nodes, and fills in what of its ports was used.
pub fn judge(run: &mut Run, node: Option<&Case<'_>>, transferred: Option<&Transferred>) -> Verdict {
    if run.collective.rows.is_empty() {
        return failure::judge(run, node);
    }
    let mut verdict = match (run.collective.ranks, run.collective.hosts.len()) {
        (Some(1), _) => alone(),
        (_, 1) => within(run),
        _ => between(run, node, transferred),
    };
    if run.has_failed() {
        let failed = failure::judge(run, node);
        verdict.summary = format!("{}; {}", failed.summary, verdict.summary);
        verdict.likely.splice(..0, failed.likely);
    }
    if run.earlier > 0 {
        verdict.notes.push(format!("the log has {} runs; this is the last", run.earlier + 1));
    }
    verdict.notes.extend(run.doubts.iter().cloned());
    verdict
}

fn alone() -> Verdict {
    Verdict {
        summary: "one rank alone: nothing goes anywhere, and its bus bandwidth is 0 by definition"
            .to_owned(),
        notes: vec![ALONE.to_owned()],
        ..Verdict::default()
    }
}

fn within(run: &Run) -> Verdict {
    Verdict {
        summary: measurements(run),
        reached_gbps: reached(run, 1.0),
        likely: likely::within(run),
        notes: vec![WITHIN.to_owned()],
        ..Verdict::default()
    }
}

fn between(run: &mut Run, node: Option<&Case<'_>>, transferred: Option<&Transferred>) -> Verdict {
    let side = node.map(Side::of);
    let ports = side.as_ref().and_then(|side| Ports::used(run, side, transferred));
    let mut notes = Vec::new();
    let reached_gbps = match transferred {
        Some(transferred) if !transferred.is_idle() => Some(transferred.busiest_gbps),
        _ => port_share(run, &mut notes).and_then(|share| reached(run, share)),
    };
    let rate = ports.as_ref().map(Ports::rate_gbps);
    run.collective.link_gbps = rate;
    run.collective.efficiency = reached_gbps.zip(rate).map(|(reached, rate)| reached / rate);
    let should_give_gbps = ports.as_ref().map(Ports::should_give_gbps);
    let part = reached_gbps.zip(should_give_gbps).map(|(reached, should)| reached / should);
    let likely = match part {
        Some(part) if part >= GOOD => Vec::new(),
        _ => likely::between(run, node, transferred, ports.as_ref()),
    };
    notes.extend(remarks(run, node, ports.is_some(), part));
    Verdict {
        summary: summary(run, ports.as_ref(), part, &likely),
        should_give_gbps,
        caps: ports.map(|ports| ports.caps()).unwrap_or_default(),
        reached_gbps,
        part,
        likely,
        notes,
        expectation: None,
    }
}

/// What of the bus bandwidth a node's ports carry.
fn port_share(run: &Run, notes: &mut Vec<String>) -> Option<f64> {
    let Some(operation) = run.operation() else {
        notes.push(RING.to_owned());
        return Some(1.0);
    };
    let share = operation.port_share(run.collective.ranks.unwrap_or(0), run.ranks_on_a_host());
    if share.is_none() {
        notes.push(format!("what ports carry of {operation} is not known from its table alone"));
    }
    share
}

fn remarks(run: &Run, node: Option<&Case<'_>>, has_ports: bool, part: Option<f64>) -> Vec<String> {
    let mut remarks = Vec::new();
    if part.is_some_and(|part| part > 1.0) {
        remarks.push(
            match run.heard.reduces_in_switches || run.heard.channels.nvlink_between_nodes > 0 {
                true => MORE_BY_SWITCHES.to_owned(),
                false => MORE.to_owned(),
            },
        );
    }
    let name = node.and_then(|case| case.node.host.name.value());
    if let Some(name) = name.filter(|name| !took_part(run, name)) {
        remarks.push(format!(
            "judged by the ports of {name}, which is not among those that took part ({})",
            run.collective.hosts.join(", ")
        ));
    }
    if !has_ports {
        remarks.push(NO_PORTS.to_owned());
    }
    remarks
}

/// Whether a host of this name took part. Programs tell names without their domain.
pub fn took_part(run: &Run, name: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let hosts = &run.collective.hosts;
    hosts.is_empty() || hosts.iter().any(|host| short(host) == short(name))
}

fn summary(
    run: &Run,
    ports: Option<&Ports>,
    part: Option<f64>,
    likely: &[report::Likely],
) -> String {
    let measurements = measurements(run);
    let measurements = match ports.zip(part) {
        Some((ports, part)) => {
            let end = if (GOOD..=1.0).contains(&part) { ": as it should be" } else { "" };
            format!(
                "{measurements}; {:.0} % of the {:.1} Gb/s that {} should give{end}",
                part * 100.0,
                ports.should_give_gbps(),
                ports.name()
            )
        }
        None => measurements,
    };
    match likely.first() {
        Some(first) => format!("{}: {measurements}", first.what),
        None => measurements,
    }
}

fn measurements(run: &Run) -> String {
    let best = run.peak().map_or(0.0, |(_, peak)| peak);
    let average = run.average().unwrap_or(0.0);
    format!("{best:.2} GB/s of bus bandwidth at best, {average:.2} on the average")
}

fn reached(run: &Run, share: f64) -> Option<f64> {
    run.peak().map(|(_, gigabytes)| gigabytes * 8.0 * share)
}

/// From here on a run is as it should be: NCCL's own protocol takes its part of what a line gives.
const GOOD: f64 = 0.85;

/// Bytes that setting up may take.
const SET_UP: u64 = 1 << 20;

const ALONE: &str = "two ranks or more say something of links; where mpirun started several, the program was built without MPI=1";
const WITHIN: &str = "all ranks are on one node: bytes go by NVLink, PCIe or the host's memory, and no port of the fabric \
                      is used";
const RING: &str = "the log does not say which operation it measured; it is taken for one that goes round in a ring";
const NO_PORTS: &str = "no ports of a node that took part are known: run this there, or give a snapshot of one \
                        (`wirelane snapshot`), and it says what part of them was used";
const MORE: &str = "more than ports carry: NVLink switches (NVLS) and switches of the network (SHARP) reduce on the way, and a \
                    tree sends less than a ring, so that the bus bandwidth can pass the line's rate; or NVLink joins the \
                    nodes. NCCL_DEBUG=INFO tells which";
const MORE_BY_SWITCHES: &str = "more than ports carry: NCCL says that switches reduce on the way (NVLS, SHARP) or that NVLink \
                                joins the nodes, so that not all of the bus bandwidth goes over ports";

#[cfg(test)]
mod stories;
