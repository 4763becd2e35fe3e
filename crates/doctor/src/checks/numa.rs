//! GPUs and cards of different NUMA nodes.

use node::{Device, Gpu, Port};

use crate::case::is_software;
use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "numa",
    title: "each GPU has an RDMA card on its own NUMA node",
    why: "What goes from a GPU to a card of another NUMA node crosses the link between \
          CPUs, which is slower, shared, and on some machines not open to GPUDirect at all.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    if case.node.host.numa_nodes.len() < 2 {
        return Vec::new();
    }
    let cards: Vec<&Device> =
        case.devices().into_iter().filter(|device| !is_software(device)).collect();
    let mut findings: Vec<Finding> = cards.iter().filter_map(|card| nowhere(case, card)).collect();
    let known = cards.into_iter().filter(|card| card.numa_node.is_some());
    let (active, idle): (Vec<&Device>, Vec<&Device>) =
        known.partition(|card| card.ports.iter().any(Port::is_active));
    if !active.is_empty() {
        findings
            .extend(case.gpus().into_iter().filter_map(|gpu| of_gpu(case, gpu, &active, &idle)));
    }
    findings
}

fn of_gpu(case: &Case<'_>, gpu: &Gpu, active: &[&Device], idle: &[&Device]) -> Option<Finding> {
    let node = gpu.numa_node?;
    let name = format!("GPU {}", gpu.index);
    let near = |cards: &[&Device]| cards.iter().any(|card| card.numa_node == Some(node));
    if near(active) {
        return Some(Finding::ok(name, "has an RDMA card on its NUMA node"));
    }
    let nearest = active.first()?;
    let place = nearest.numa_node.unwrap_or_default();
    let summary = format!(
        "is on NUMA node {node}, which has no active RDMA card; {} is on node {place}",
        nearest.name
    );
    let finding = if near(idle) || active.len() > 1 {
        Finding::warning(name, summary)
    } else {
        Finding::note(name, summary)
    };
    Some(
        finding
            .read(case.file(format!("{}/numa_node", gpu.pci.folder())))
            .read_all(nearest.pci.map(|card| case.file(format!("{}/numa_node", card.folder()))))
            .fix(
                "Put a card into a slot of that CPU, or bring up the one that is there; \
                 `wirelane topo` shows the map.",
            ),
    )
}

/// The firmware does not say where the card is.
fn nowhere(case: &Case<'_>, card: &Device) -> Option<Finding> {
    let address = card.pci.filter(|_| card.numa_node.is_none())?;
    let file = case.file(format!("{}/numa_node", address.folder()));
    let told = file.value == "-1";
    told.then(|| {
        Finding::note(&*card.name, "the firmware does not say which NUMA node it is on")
            .read(file)
            .read(Evidence::new(
                "/sys/devices/system/node",
                format!("{} nodes", case.node.host.numa_nodes.len()),
            ))
            .fix(
                "Pin programs by hand: `numactl --cpunodebind`; look in the firmware set-up for \
                 NUMA settings.",
            )
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use node::{Node, Tree};
    use serde_json::{Value, json};

    use super::*;

    /// GPUs that are spoken of, in a pod of a host with eight cards and eight GPUs that was given the first two cards and
    /// these GPU nodes.
    fn spoken_of(nodes: &[&str], files: &[(&str, &str)]) -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/tests/trees/ndr8.json");
        let text = std::fs::read_to_string(path).expect("a tree");
        let mut json: Value = serde_json::from_str(&text).expect("JSON");
        json["files"]["/proc/1/cgroup"] = json!("0::/kubepods.slice/kubepods-pod1.slice\n");
        json["files"]["/proc/self/cgroup"] = json!("0::/kubepods.slice/kubepods-pod1.slice\n");
        for (path, text) in files {
            json["files"][*path] = json!(text);
        }
        let given = ["/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"];
        let all = json["nodes"].as_object_mut().expect("nodes");
        all.retain(|path, _| given.contains(&path.as_str()) || nodes.contains(&path.as_str()));
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), json.to_string()).expect("is written");
        let tree = Tree::at(file.path()).expect("a tree");
        let node = Node::read(&tree);
        let findings = run(&Case::of(&node, &tree));
        findings.iter().map(Finding::subject).collect()
    }

    #[test]
    fn a_pod_hears_of_the_gpus_it_was_given() {
        assert_eq!(spoken_of(&["/dev/nvidia0", "/dev/nvidia1"], &[]), ["GPU 0", "GPU 1"]);
        assert_eq!(spoken_of(&[], &[]), [""; 0]);
    }

    #[test]
    fn the_driver_knows_the_numbers_of_its_nodes() {
        let file = |address: &str| format!("/proc/driver/nvidia/gpus/{address}/information");
        let (first, last) = (file("0000:1b:00.0"), file("0000:e0:00.0"));
        let told = [(&*first, "Device Minor: \t 7\n"), (&*last, "Device Minor: \t 0\n")];
        assert_eq!(spoken_of(&["/dev/nvidia7"], &told), ["GPU 0"]);
    }
}
