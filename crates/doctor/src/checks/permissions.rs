//! Whether this user may open the device nodes.

use node::{Device, FileMetadata, Reading};

use crate::expected::device_nodes::may_open;
use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "permissions",
    title: "this user may open the device nodes in /dev/infiniband",
    why: "Programs use a device through its node /dev/infiniband/uverbsN. A container sees every \
          device of its host, but can use only those whose device nodes it was given.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    if !input.tree.is_live()
        && input.node.char_devices.is_empty()
        && !input.tree.exists("/dev/infiniband")
    {
        return vec![Finding::unknown("host", "the tree has no /dev: permissions are not known")];
    }
    let mut findings: Vec<Finding> =
        input.node.devices.iter().filter_map(|device| check_device(input, device)).collect();
    findings.extend(nodes_without_device(input));
    findings
}

fn check_device(input: &CheckInput<'_>, device: &Device) -> Option<Finding> {
    let path = format!("/dev/infiniband/{}", device.uverbs.as_deref()?);
    let node = input.tree.metadata(&path);
    let Reading::Value(node) = node else { return Some(missing_node(input, device, &path, &node)) };
    let evidence = Evidence::new(&*path, permissions(&node));
    Some(match may_open(&input.node.process, &node) {
        Some(true) => {
            Finding::ok(&*device.name, "its device node can be opened").evidence(evidence)
        }
        None => Finding::unknown(&*device.name, "the user of this snapshot is not known")
            .evidence(evidence),
        Some(false) => {
            let uid = input.node.process.uid.unwrap_or_default();
            Finding::problem(&*device.name, format!("user {uid} may not open its device node"))
                .evidence(evidence)
                .fix(format!("chmod 0666 {path}"))
                .fix(
                    "Permanently: a udev rule `KERNEL==\"uverbs*\", MODE=\"0666\"` (rdma-core \
                     installs one).",
                )
        }
    })
}

fn missing_node(
    input: &CheckInput<'_>,
    device: &Device,
    path: &str,
    node: &Reading<FileMetadata>,
) -> Finding {
    let evidence = Evidence::new(path, node.why_not().unwrap_or_default());
    let in_container = input.node.host.container.is_some();
    if in_container && input.node.devices.iter().any(|device| input.is_given(device)) {
        let summary = "visible in this container, but not assigned to it";
        return Finding::note(&*device.name, summary).evidence(evidence);
    }
    if in_container {
        return Finding::problem(
            &*device.name,
            "no RDMA device is assigned to this container, although it sees some",
        )
        .evidence(evidence)
        .fix(
            "Kubernetes: request the device plugin's resource in `resources.limits`, e.g. \
             `rdma/hca: 1`.",
        )
        .fix("Docker and podman: `--device /dev/infiniband`.");
    }
    Finding::problem(&*device.name, "it has no device node in /dev/infiniband")
        .evidence(evidence)
        .fix("udevadm trigger --subsystem-match=infiniband_verbs")
}

/// Device nodes whose device is not visible: it is in another network namespace.
fn nodes_without_device(input: &CheckInput<'_>) -> Vec<Finding> {
    let known: Vec<&str> =
        input.node.devices.iter().filter_map(|device| device.uverbs.as_deref()).collect();
    let nodes = input
        .node
        .char_devices
        .iter()
        .filter_map(|file| file.path.strip_prefix("/dev/infiniband/"));
    let unknown = nodes.filter(|name| name.starts_with("uverbs") && !known.contains(name));
    unknown
        .map(|name| {
            Finding::note(
                name,
                "a device node without a visible device: it belongs to another network namespace",
            )
            .evidence(input.file(format!("/sys/class/infiniband_verbs/{name}/ibdev")))
        })
        .collect()
}

fn permissions(node: &FileMetadata) -> String {
    format!("mode {:04o}, user {}, group {}", node.mode & 0o7777, node.uid, node.gid)
}
