//! GPUs without a NIC on their NUMA node.

use node::{Device, Gpu, Port};

use crate::input::is_software;
use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "numa",
    title: "each GPU has an RDMA NIC on its own NUMA node",
    why: "Traffic between a GPU and a NIC on another NUMA node crosses the link between CPUs, \
          which is slower, shared, and on some machines does not support GPUDirect at all.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    if input.node.host.numa_nodes.len() < 2 {
        return Vec::new();
    }
    let nics: Vec<&Device> =
        input.devices().into_iter().filter(|device| !is_software(device)).collect();
    let mut findings: Vec<Finding> =
        nics.iter().filter_map(|nic| unknown_node(input, nic)).collect();
    let known = nics.into_iter().filter(|nic| nic.numa_node.is_some());
    let (active, idle): (Vec<&Device>, Vec<&Device>) =
        known.partition(|nic| nic.ports.iter().any(Port::is_active));
    if !active.is_empty() {
        findings.extend(
            input.gpus().into_iter().filter_map(|gpu| check_gpu(input, gpu, &active, &idle)),
        );
    }
    findings
}

fn check_gpu(
    input: &CheckInput<'_>,
    gpu: &Gpu,
    active: &[&Device],
    idle: &[&Device],
) -> Option<Finding> {
    let node = gpu.numa_node?;
    let name = format!("GPU {}", gpu.index);
    let near = |nics: &[&Device]| nics.iter().any(|nic| nic.numa_node == Some(node));
    if near(active) {
        return Some(Finding::ok(name, "has an RDMA NIC on its NUMA node"));
    }
    let nearest = active.first()?;
    let place = nearest.numa_node.unwrap_or_default();
    let summary = format!(
        "is on NUMA node {node}, which has no active RDMA NIC; {} is on node {place}",
        nearest.name
    );
    let finding = if near(idle) || active.len() > 1 {
        Finding::warning(name, summary)
    } else {
        Finding::note(name, summary)
    };
    Some(
        finding
            .evidence(input.file(format!("{}/numa_node", gpu.pci.folder())))
            .evidence_all(nearest.pci.map(|nic| input.file(format!("{}/numa_node", nic.folder()))))
            .fix(
                "Install a NIC in a slot of that CPU, or bring up the one that is there; \
                 `wirelane topo` prints the topology.",
            ),
    )
}

/// The firmware does not report the NUMA node of the NIC.
fn unknown_node(input: &CheckInput<'_>, nic: &Device) -> Option<Finding> {
    let address = nic.pci.filter(|_| nic.numa_node.is_none())?;
    let file = input.file(format!("{}/numa_node", address.folder()));
    let is_unknown = file.value == "-1";
    is_unknown.then(|| {
        Finding::note(&*nic.name, "the firmware does not report its NUMA node")
            .evidence(file)
            .evidence(Evidence::new(
                "/sys/devices/system/node",
                format!("{} nodes", input.node.host.numa_nodes.len()),
            ))
            .fix(
                "Pin programs manually: `numactl --cpunodebind`; check the NUMA settings in the \
                 firmware setup.",
            )
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use node::{Node, Tree};
    use serde_json::{Value, json};

    use super::*;

    /// The subjects of findings in a pod that was given the first two of eight NICs and these GPU nodes.
    fn subjects(nodes: &[&str], files: &[(&str, &str)]) -> Vec<String> {
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
        let findings = run(&CheckInput::new(&node, &tree));
        findings.iter().map(Finding::subject).collect()
    }

    #[test]
    fn in_a_pod_only_its_own_gpus_are_checked() {
        assert_eq!(subjects(&["/dev/nvidia0", "/dev/nvidia1"], &[]), ["GPU 0", "GPU 1"]);
        assert_eq!(subjects(&[], &[]), [""; 0]);
    }

    #[test]
    fn minor_numbers_come_from_the_driver() {
        let file = |address: &str| format!("/proc/driver/nvidia/gpus/{address}/information");
        let (first, last) = (file("0000:1b:00.0"), file("0000:e0:00.0"));
        let files = [(&*first, "Device Minor: \t 7\n"), (&*last, "Device Minor: \t 0\n")];
        assert_eq!(subjects(&["/dev/nvidia7"], &files), ["GPU 0"]);
    }
}
