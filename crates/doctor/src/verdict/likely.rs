//! What likely limits a measurement, the most likely first.

use report::{Cap, Likely, Point, Transport};

use super::{GOOD, Side, counters};
use crate::limits;

/// What speaks for which limit. A path that gives what it should has none.
pub(super) fn of(
    point: &Point,
    caps: &[Cap],
    part: Option<f64>,
    here: &Side,
    there: Option<&Side>,
) -> Vec<Likely> {
    if part.is_some_and(|part| part >= GOOD) {
        return narrow_slot(caps).into_iter().collect();
    }
    let mut likely = Vec::new();
    likely.extend(software(point, here));
    likely.extend(narrow_slot(caps));
    if let Some(cap) = caps.first() {
        // Without a link, the counters are the kernel's for the whole host, and say nothing about this path.
        likely.extend(moved(point));
        likely.extend(small(point));
        likely.extend(shallow(point, cap));
    }
    likely.extend(cpu(point, here));
    likely.extend(mtu(point));
    likely.extend(troubles(point, here, "here"));
    likely.extend(there.into_iter().flat_map(|there| troubles(point, there, "there")));
    if likely.is_empty() && point.lanes == 1 && caps.first().is_some_and(|cap| cap.gbps > FAST) {
        likely.push(Likely {
            what: "one queue pair".to_owned(),
            evidence: "cards of 100 Gb/s and more may need several".to_owned(),
            fix: Some("try --qps 4".to_owned()),
        });
    }
    likely
}

fn software(point: &Point, here: &Side) -> Option<Likely> {
    let mut ports = point.rails.iter().filter_map(|rail| here.port(&rail.here));
    let port = ports.find(|port| port.is_software)?;
    Some(Likely {
        what: "the CPU: RDMA is done in software here".to_owned(),
        evidence: format!("{} is soft-RoCE or siw, no card", port.name),
        fix: None,
    })
}

fn moved(point: &Point) -> Vec<Likely> {
    let bad = counters::bad(point).into_iter();
    bad.map(|(name, count, meaning)| Likely {
        what: "packet loss".to_owned(),
        evidence: format!("{name} went up by {count}: {}", meaning.row.help()),
        fix: Some("see `wirelane doctor`, and `wirelane explain` for the counter".to_owned()),
    })
    .take(3)
    .collect()
}

/// PCIe below what the link could carry.
fn narrow_slot(caps: &[Cap]) -> Option<Likely> {
    let lowest = caps.first().filter(|cap| cap.what.starts_with("PCIe"))?;
    let line = caps.iter().find(|cap| !cap.what.starts_with("PCIe"))?;
    Some(Likely {
        what: format!("the {}", lowest.what),
        evidence: format!(
            "{}: {:.1} Gb/s, and the link could carry {:.1}",
            lowest.evidence, lowest.gbps, line.gbps
        ),
        fix: Some("see `wirelane doctor pcie`: another slot may be wider".to_owned()),
    })
}

fn small(point: &Point) -> Option<Likely> {
    let rate = point.messages_per_second?;
    (point.size_bytes < SMALL).then(|| Likely {
        what: "the messages are small: their number limits, not their bytes".to_owned(),
        evidence: format!(
            "{:.2} million messages of {} bytes a second",
            rate / 1e6,
            point.size_bytes
        ),
        fix: Some("take --size 64KiB or more for bandwidth; `bench rate` for messages".to_owned()),
    })
}

/// With so much in flight, and the time that one takes at best, more cannot come.
fn shallow(point: &Point, cap: &Cap) -> Option<Likely> {
    let fastest = point.latency.as_ref()?.min_ns.max(1);
    let rails = point.rails.len().max(1) as u64;
    let in_flight = u64::from(point.depth) * u64::from(point.lanes) * rails * point.size_bytes;
    let most = in_flight as f64 * 8.0 / fastest as f64;
    (most < cap.gbps).then(|| Likely {
        what: "too little is in flight".to_owned(),
        evidence: format!(
            "{in_flight} bytes in {:.1} µs, the least that one takes, are {most:.1} Gb/s",
            fastest as f64 / 1e3
        ),
        fix: Some("raise --depth or --qps".to_owned()),
    })
}

/// Only of lanes that use the kernel: a lane that uses a card polls, so its CPU is always busy.
fn cpu(point: &Point, here: &Side) -> Option<Likely> {
    if point.transport == Transport::Verbs {
        return None;
    }
    let seconds = point.seconds.filter(|seconds| *seconds > 0.0)?;
    let ends = [("here", point.cpu_seconds?), ("there", point.peer_cpu_seconds?)];
    let busy = ends.iter().map(|(end, cpu)| (*end, cpu / seconds)).filter(|(_, part)| *part > BUSY);
    let (end, part) = busy.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let few = here.cpus.is_some_and(|cpus| cpus < FEW);
    Some(Likely {
        what: format!("the CPU {end}: one thread moves the bytes"),
        evidence: format!("busy {:.0} % of the time", (part * 100.0).min(100.0)),
        fix: Some(match few {
            true => "this machine has few CPUs: give it more".to_owned(),
            false => "RDMA needs no CPU; or spread the work over several connections".to_owned(),
        }),
    })
}

fn mtu(point: &Point) -> Option<Likely> {
    let rail = point.rails.iter().find(|rail| rail.mtu.is_some_and(|mtu| mtu < 2048))?;
    Some(Likely {
        what: "the MTU is small: headers and packets cost".to_owned(),
        evidence: format!("{} uses {} bytes", rail.here, rail.mtu?),
        fix: Some(format!("set the net device's and the switches' MTU to {}", limits::mtu::WANTED)),
    })
}

/// What the doctor says of the devices that were used.
fn troubles(point: &Point, side: &Side, end: &str) -> Vec<Likely> {
    let uses = |subject: &String| {
        let device = subject.split(' ').next().unwrap_or_default();
        subject == "host"
            || point.rails.iter().any(|rail| {
                [&rail.here, &rail.there].iter().any(|port| port.split(' ').next() == Some(device))
            })
    };
    let ours = side.troubles.iter().filter(|trouble| trouble.subjects.iter().any(uses));
    ours.map(|trouble| Likely {
        what: trouble.summary.clone(),
        evidence: format!("`wirelane doctor {}` {end}", trouble.check),
        fix: trouble.fix.clone(),
    })
    .take(3)
    .collect()
}

/// Smaller messages are measured by their number.
const SMALL: u64 = 4096;
const FAST: f64 = 90.0;
const BUSY: f64 = 0.9;
const FEW: u32 = 4;
