//! The nearest usable port of each GPU: a note only, since NCCL finds it itself.

use node::{Distance, Node};

use super::usable_port::UsablePort;

/// A line for each GPU that has a usable port; equally near usable ports are distributed evenly.
pub(super) fn lines(node: &Node, usable_ports: &[UsablePort]) -> Vec<String> {
    let mut assigned = vec![0usize; usable_ports.len()];
    let mut lines = Vec::new();
    for gpu in &node.gpus {
        let distances = usable_ports.iter().enumerate().filter_map(|(at, usable)| {
            Some((node.distance(gpu.pci, usable.device.pci?), assigned[at], at))
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
            usable_ports[at].name(),
            distance.name()
        ));
    }
    lines
}

/// Whether some GPU reaches every usable port only over the link between CPUs.
pub(super) fn crosses_sockets(node: &Node, usable_ports: &[UsablePort]) -> bool {
    node.gpus.iter().any(|gpu| {
        let mut distances = usable_ports
            .iter()
            .filter_map(|usable| Some(node.distance(gpu.pci, usable.device.pci?)));
        distances.next().is_some_and(|first| {
            first == Distance::System && distances.all(|distance| distance == Distance::System)
        })
    })
}
