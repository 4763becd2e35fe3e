//! Which rail is nearest to each GPU: a note for people, since NCCL finds it by itself.

use node::{Distance, Node};

use super::rail::Rail;

/// A line for each GPU that has a rail, rails that are as near as others shared fairly.
pub(super) fn lines(node: &Node, rails: &[Rail]) -> Vec<String> {
    let mut taken = vec![0usize; rails.len()];
    let mut lines = Vec::new();
    for gpu in &node.gpus {
        let distances = rails.iter().enumerate().filter_map(|(at, rail)| {
            Some((node.distance(gpu.pci, rail.device.pci?), taken[at], at))
        });
        let Some((distance, _, at)) = distances.min() else { continue };
        if distance == Distance::Unknown {
            continue;
        }
        taken[at] += 1;
        lines.push(format!(
            "GPU {} ({}) is nearest to {} ({})",
            gpu.index,
            gpu.pci,
            rails[at].name(),
            distance.name()
        ));
    }
    lines
}

/// Whether some GPU reaches every rail by the link between CPUs alone.
pub(super) fn crosses_sockets(node: &Node, rails: &[Rail]) -> bool {
    node.gpus.iter().any(|gpu| {
        let mut distances =
            rails.iter().filter_map(|rail| Some(node.distance(gpu.pci, rail.device.pci?)));
        distances.next().is_some_and(|first| {
            first == Distance::System && distances.all(|distance| distance == Distance::System)
        })
    })
}
