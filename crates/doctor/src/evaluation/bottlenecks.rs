//! Likely bottlenecks of a measurement, the most likely first.

use report::{Bottleneck, Bound, Point, Transport};

use super::{GOOD, HostFacts, counters};
use crate::expected;

/// The likely bottlenecks, with evidence. A path that reaches its expected bandwidth has none, except a slow slot.
pub(super) fn find(
    point: &Point,
    bounds: &[Bound],
    ratio: Option<f64>,
    local: &HostFacts,
    peer: Option<&HostFacts>,
) -> Vec<Bottleneck> {
    if ratio.is_some_and(|ratio| ratio >= GOOD) {
        return narrow_slot(bounds).into_iter().collect();
    }
    let mut bottlenecks = Vec::new();
    bottlenecks.extend(software_device(point, local));
    bottlenecks.extend(narrow_slot(bounds));
    if let Some(bound) = bounds.first() {
        // Without a link, the counters are those of the whole host, not of this path.
        bottlenecks.extend(packet_loss(point));
        bottlenecks.extend(small_messages(point));
        bottlenecks.extend(low_depth(point, bound));
    }
    bottlenecks.extend(busy_cpu(point, local));
    bottlenecks.extend(small_mtu(point));
    bottlenecks.extend(doctor_findings(point, local, "here"));
    bottlenecks.extend(peer.into_iter().flat_map(|peer| doctor_findings(point, peer, "there")));
    let fast = bounds.first().is_some_and(|bound| bound.gbps > FAST_GBPS);
    if bottlenecks.is_empty() && point.lanes == 1 && fast {
        bottlenecks.push(Bottleneck {
            what: "one queue pair".to_owned(),
            evidence: "NICs of 100 Gb/s and more may need several".to_owned(),
            fix: Some("try --qps 4".to_owned()),
        });
    }
    bottlenecks
}

fn software_device(point: &Point, local: &HostFacts) -> Option<Bottleneck> {
    let mut ports = point.rails.iter().filter_map(|rail| local.port(&rail.local));
    let port = ports.find(|port| port.is_software)?;
    Some(Bottleneck {
        what: "the CPU: RDMA is done in software".to_owned(),
        evidence: format!("{} is soft-RoCE or siw", port.name),
        fix: None,
    })
}

fn packet_loss(point: &Point) -> Vec<Bottleneck> {
    let bad = counters::bad(point).into_iter();
    bad.map(|(name, count, known)| Bottleneck {
        what: "packet loss".to_owned(),
        evidence: format!("{name} increased by {count}: {}", known.row.help()),
        fix: Some("see `wirelane doctor losses flow-control ecn`".to_owned()),
    })
    .take(3)
    .collect()
}

/// A PCIe link that is slower than the network link.
fn narrow_slot(bounds: &[Bound]) -> Option<Bottleneck> {
    let lowest = bounds.first().filter(|bound| bound.what.starts_with("PCIe"))?;
    let link = bounds.iter().find(|bound| !bound.what.starts_with("PCIe"))?;
    Some(Bottleneck {
        what: format!("the {}", lowest.what),
        evidence: format!(
            "{}: {:.1} Gb/s, but the link has {:.1}",
            lowest.evidence, lowest.gbps, link.gbps
        ),
        fix: Some("see `wirelane doctor pcie`: another slot may be wider".to_owned()),
    })
}

fn small_messages(point: &Point) -> Option<Bottleneck> {
    let rate = point.messages_per_second?;
    (point.size_bytes < SMALL_BYTES).then(|| Bottleneck {
        what: "the messages are small: the message rate is the limit".to_owned(),
        evidence: format!(
            "{:.2} million messages of {} bytes per second",
            rate / 1e6,
            point.size_bytes
        ),
        fix: Some(
            "use --size 64KiB or more for bandwidth, `bench rate` for the message rate".to_owned(),
        ),
    })
}

/// The bytes in flight and the lowest latency limit the bandwidth.
fn low_depth(point: &Point, bound: &Bound) -> Option<Bottleneck> {
    let fastest = point.latency.as_ref()?.min_ns.max(1);
    let rails = point.rails.len().max(1) as u64;
    let in_flight = u64::from(point.depth) * u64::from(point.lanes) * rails * point.size_bytes;
    let max_gbps = in_flight as f64 * 8.0 / fastest as f64;
    (max_gbps < bound.gbps).then(|| Bottleneck {
        what: "too few bytes in flight".to_owned(),
        evidence: format!(
            "{in_flight} bytes per {:.1} µs, the lowest latency, are {max_gbps:.1} Gb/s",
            fastest as f64 / 1e3
        ),
        fix: Some("raise --depth or --qps".to_owned()),
    })
}

/// Only for lanes that use the kernel: a verbs lane polls, so that its CPU is always busy.
fn busy_cpu(point: &Point, local: &HostFacts) -> Option<Bottleneck> {
    if point.transport == Transport::Verbs {
        return None;
    }
    let seconds = point.seconds.filter(|seconds| *seconds > 0.0)?;
    let ends = [("here", point.cpu_seconds?), ("there", point.peer_cpu_seconds?)];
    let busy =
        ends.iter().map(|(end, cpu)| (*end, cpu / seconds)).filter(|(_, ratio)| *ratio > BUSY);
    let (end, ratio) = busy.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let few = local.cpus.is_some_and(|cpus| cpus < FEW_CPUS);
    Some(Bottleneck {
        what: format!("the CPU {end}: one thread transfers all data"),
        evidence: format!("busy {:.0} % of the time", (ratio * 100.0).min(100.0)),
        fix: Some(match few {
            true => "this machine has few CPUs: use one with more".to_owned(),
            false => "use RDMA, which needs no CPU, or several connections".to_owned(),
        }),
    })
}

fn small_mtu(point: &Point) -> Option<Bottleneck> {
    let rail = point.rails.iter().find(|rail| rail.mtu.is_some_and(|mtu| mtu < 2048))?;
    Some(Bottleneck {
        what: "the MTU is small: more headers and packets".to_owned(),
        evidence: format!("{} uses {} bytes", rail.local, rail.mtu?),
        fix: Some(format!("set the MTU of net device and switches to {}", expected::mtu::WANTED)),
    })
}

/// The doctor's findings on the devices that were used.
fn doctor_findings(point: &Point, facts: &HostFacts, end: &str) -> Vec<Bottleneck> {
    let uses = |subject: &String| {
        let device = subject.split(' ').next().unwrap_or_default();
        subject == "host"
            || point.rails.iter().any(|rail| {
                [&rail.local, &rail.peer].iter().any(|port| port.split(' ').next() == Some(device))
            })
    };
    let used = facts.findings.iter().filter(|finding| finding.subjects.iter().any(uses));
    used.map(|finding| Bottleneck {
        what: finding.summary.clone(),
        evidence: format!("`wirelane doctor {}` {end}", finding.check),
        fix: finding.fix.clone(),
    })
    .take(3)
    .collect()
}

/// For smaller messages the message rate is the limit.
const SMALL_BYTES: u64 = 4096;
const FAST_GBPS: f64 = 90.0;
/// The part of the time from which on a CPU is busy.
const BUSY: f64 = 0.9;
const FEW_CPUS: u32 = 4;
