//! Assigns an RDMA device to each GPU: the nearest one, evenly distributed.
//!
//! The result depends on the machine alone, so that every process of a job on it gets the same.

use std::collections::BTreeMap;

use node::{Address, Device, Distance, Gpu, Node};
use serde::Serialize;

/// A GPU's device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Assignment {
    /// The GPU's number.
    pub gpu: u32,
    /// The device: `mlx5_0`.
    pub device: String,
    /// Its active port.
    pub port: u32,
    /// The distance between them.
    pub distance: Distance,
    /// Why this device.
    pub why: String,
}

/// Assigns a device to each GPU; to none if no device has an active port.
///
/// GPUs with the fewest candidates choose first, so that others do not take their only one.
pub fn assign(node: &Node) -> Vec<Assignment> {
    let candidates: Vec<Candidate> =
        node.devices.iter().filter_map(|device| candidate(device, node)).collect();
    let mut order: Vec<(&Gpu, Vec<&Candidate>)> =
        node.gpus.iter().map(|gpu| (gpu, nearest(node, gpu, &candidates))).collect();
    order.sort_by_key(|(gpu, near)| (near.len(), gpu.index));
    let mut gpus_of: BTreeMap<&str, u32> = BTreeMap::new();
    let mut assigned: Vec<Assignment> = Vec::new();
    for (gpu, near) in &order {
        let count = |candidate: &&&Candidate| gpus_of.get(candidate.device.name.as_str()).copied();
        let Some(chosen) = near.iter().min_by_key(|candidate| count(candidate).unwrap_or(0)) else {
            continue;
        };
        let distance = node.distance(gpu.pci, chosen.pci);
        let why = why(near, chosen, distance, count(&chosen).unwrap_or(0));
        *gpus_of.entry(&chosen.device.name).or_default() += 1;
        let (device, port) = (chosen.device.name.clone(), chosen.port);
        assigned.push(Assignment { gpu: gpu.index, device, port, distance, why });
    }
    assigned.sort_by_key(|assignment| assignment.gpu);
    assigned
}

/// A device that could serve a GPU.
struct Candidate<'n> {
    device: &'n Device,
    pci: Address,
    port: u32,
    mbps: u64,
}

/// A device with an active port. Its rate is limited by its port and by its slot.
fn candidate<'n>(device: &'n Device, node: &Node) -> Option<Candidate<'n>> {
    let pci = device.pci?;
    let port = device.ports.iter().find(|port| port.is_active())?;
    let slot = node.pci.get(&pci).and_then(|function| function.link.gbps().0);
    let rate = port.rate.value().map_or(0, |rate| rate.mbps);
    let mbps = slot.map_or(rate, |gbps| rate.min((gbps * 1000.0) as u64));
    Some(Candidate { device, pci, port: port.number, mbps })
}

/// The nearest candidates; of several, those with at least 90 % of the best rate. In PCI order.
fn nearest<'c, 'n>(node: &Node, gpu: &Gpu, all: &'c [Candidate<'n>]) -> Vec<&'c Candidate<'n>> {
    let distance = |candidate: &Candidate| node.distance(gpu.pci, candidate.pci);
    let least = all.iter().map(distance).min();
    let near = all.iter().filter(|candidate| Some(distance(candidate)) == least);
    let mut near: Vec<&Candidate> = near.collect();
    let best = near.iter().map(|candidate| candidate.mbps).max().unwrap_or(0);
    near.retain(|candidate| candidate.mbps * 10 >= best * 9);
    near.sort_by_key(|candidate| (candidate.pci, &candidate.device.name));
    near
}

fn why(near: &[&Candidate], chosen: &Candidate, distance: Distance, gpus: u32) -> String {
    let place = match distance {
        Distance::Same => "on the same card",
        Distance::OneSwitch => "behind the same PCIe switch",
        Distance::Switches => "behind the same PCIe switches",
        Distance::HostBridge => "below the same host bridge",
        Distance::NumaNode => "on the same NUMA node",
        Distance::System => "on another NUMA node; none is nearer",
        Distance::Unknown => "distances are not known on this machine",
    };
    match near.iter().filter(|other| other.device.name != chosen.device.name).count() {
        0 => place.to_owned(),
        others if gpus == 0 => format!("{place}, as are {others} more; no other GPU uses it"),
        others => format!("{place}, as are {others} more; none has fewer GPUs"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(tree: &str) -> Node {
        let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/tests/trees");
        let tree = node::Tree::at(&trees.join(format!("{tree}.json"))).expect("a tree");
        Node::read(&tree)
    }

    fn assigned(tree: &str) -> Vec<(u32, String, &'static str)> {
        let assigned = assign(&read(tree));
        assigned.into_iter().map(|one| (one.gpu, one.device, one.distance.name())).collect()
    }

    #[test]
    fn each_gpu_has_the_nic_behind_its_switch() {
        let expected: Vec<_> = (0..8).map(|gpu| (gpu, format!("mlx5_{gpu}"), "PIX")).collect();
        assert_eq!(assigned("ndr8"), expected, "and none the storage NIC");
    }

    #[test]
    fn two_gpus_share_the_nic_of_their_host_bridge() {
        let names: Vec<String> = assigned("efa").into_iter().map(|(_, device, _)| device).collect();
        let expected = ["rdmap16s27", "rdmap32s27", "rdmap144s27", "rdmap160s27"];
        assert_eq!(names, expected.map(|name| [name, name]).concat());
    }

    /// The devices assigned on a machine with eight GPUs and NICs that is reduced to these.
    fn reduced(gpus: &[u32], devices: &[&str]) -> Vec<String> {
        let mut node = read("ndr8");
        node.gpus.retain(|gpu| gpus.contains(&gpu.index));
        node.devices.retain(|device| devices.contains(&device.name.as_str()));
        assign(&node).into_iter().map(|one| one.device).collect()
    }

    #[test]
    fn equally_near_nics_are_distributed() {
        assert_eq!(reduced(&[0, 1], &["mlx5_2", "mlx5_3"]), ["mlx5_2", "mlx5_3"]);
        let crossed = reduced(&[0, 2], &["mlx5_2", "mlx5_3"]);
        assert_eq!(crossed, ["mlx5_3", "mlx5_2"], "the GPU with one candidate chooses first");
        let slow = reduced(&[0, 1], &["mlx5_2", "mlx5_8"]);
        assert_eq!(slow, ["mlx5_2", "mlx5_2"], "not the slower one");
    }

    #[test]
    fn without_gpus_or_devices_nothing_is_assigned() {
        assert!(assigned("mlx5-roce").is_empty() && assigned("empty").is_empty());
    }
}
