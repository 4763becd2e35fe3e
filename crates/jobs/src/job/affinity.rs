//! The nearest rail of each GPU: a note only, since NCCL finds it itself.

use node::{Distance, Node};

use super::rail::Rail;

/// A line for each GPU that has a rail; equally near rails are distributed evenly.
pub(super) fn lines(node: &Node, rails: &[Rail]) -> Vec<String> {
    let mut assigned = vec![0usize; rails.len()];
    let mut lines = Vec::new();
    for gpu in &node.gpus {
        let distances = rails.iter().enumerate().filter_map(|(at, rail)| {
            Some((node.distance(gpu.pci, rail.device.pci?), assigned[at], at))
        });
        let Some((distance, _, at)) = distances.min() else { continue };
        if distance == Distance::Unknown {
            continue;
        }
        assigned[at] += 1;
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

/// Whether some GPU reaches every rail only over the link between CPUs.
pub(super) fn crosses_sockets(node: &Node, rails: &[Rail]) -> bool {
    node.gpus.iter().any(|gpu| {
        let mut distances =
            rails.iter().filter_map(|rail| Some(node.distance(gpu.pci, rail.device.pci?)));
        distances.next().is_some_and(|first| {
            first == Distance::System && distances.all(|distance| distance == Distance::System)
        })
    })
}
