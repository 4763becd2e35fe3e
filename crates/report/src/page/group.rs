//! Groups of points that differ only in size: a line in a plot, and its name.

use crate::{Point, Rail, Tool, Transport};

/// Points of a line, by size.
#[derive(Debug)]
pub(super) struct Group<'a> {
    /// What distinguishes it from other groups.
    pub(super) name: String,
    pub(super) points: Vec<&'a Point>,
}

/// Groups points, in the order of measurement.
pub(super) fn groups<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<Group<'a>> {
    let mut found: Vec<([String; TRAITS], Vec<&Point>)> = Vec::new();
    for point in points {
        let traits = traits(point);
        match found.iter_mut().find(|(known, _)| *known == traits) {
            Some((_, points)) => points.push(point),
            None => found.push((traits, vec![point])),
        }
    }
    let differ: Vec<bool> = (0..TRAITS)
        .map(|which| found.iter().any(|(traits, _)| traits[which] != found[0].0[which]))
        .collect();
    let group = |(traits, mut points): ([String; TRAITS], Vec<&'a Point>)| {
        points.sort_by_key(|point| point.size_bytes);
        let named =
            traits.iter().zip(&differ).filter(|(text, differ)| **differ && !text.is_empty());
        let named: Vec<&str> = named.map(|(text, _)| text.as_str()).collect();
        let name = match named.is_empty() {
            true => format!("{} over {}", traits[0], traits[1]),
            false => named.join(", "),
        };
        Group { name, points }
    };
    found.into_iter().map(group).collect()
}

/// A path's two ends; only one if they have the same name.
pub(super) fn ends(rail: &Rail) -> String {
    match (rail.local.as_str(), rail.peer.as_str()) {
        ("", end) | (end, "") => end.to_owned(),
        (local, peer) if local == peer => local.to_owned(),
        (local, peer) => format!("{local} – {peer}"),
    }
}

/// The displayed name of a transport.
pub(super) fn transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Shm => "shared memory",
        Transport::Verbs => "RDMA",
        Transport::Ofi => "libfabric",
        Transport::Tcp => "TCP",
    }
}

/// Whether there is more than one size.
pub(super) fn is_sweep(groups: &[Group<'_>]) -> bool {
    let sizes = || groups.iter().flat_map(|group| &group.points).map(|point| point.size_bytes);
    sizes().min() != sizes().max()
}

fn traits(point: &Point) -> [String; TRAITS] {
    let mark = |is: bool, mark: &str| if is { mark.to_owned() } else { String::new() };
    let rdma = point.transport == Transport::Verbs;
    let rails: Vec<String> = point.rails.iter().filter(|_| rdma).map(ends).collect();
    [
        point.operation.name().to_owned(),
        transport(point.transport).to_owned(),
        rails.join(" and "),
        format!("{} → {}", point.from, point.to),
        format!("{} in flight", point.depth),
        format!("{} lanes", point.lanes),
        mark(point.both_ways, "both directions"),
        mark(point.datagrams, "datagrams"),
        mark(point.tool == Tool::Perftest, "with perftest"),
    ]
}

const TRAITS: usize = 9;
