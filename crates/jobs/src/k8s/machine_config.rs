//! MachineConfig: kernel arguments and files of OpenShift's nodes.

use std::fmt::Write;

use doctor::limits::{iommu, memlock};
use node::{Node, Seen};
use serde_json::{Value, json};

use super::{Manifest, Name, Printed};

/// What is wanted.
#[derive(Debug)]
pub struct MachineConfigRequest<'r> {
    /// The pool: `worker`.
    pub role: &'r Name,
    /// Whether an IOMMU that is off shall be switched on too.
    pub enable_iommu: bool,
    /// Whether containers may lock any amount of memory.
    pub memlock: bool,
}

/// Pass-through for the IOMMU, by this node's architecture, and CRI-O's limit.
pub fn machine_config(node: &Node, request: &MachineConfigRequest) -> Printed {
    let mut printed = Printed::default();
    let mut spec = json!({
        "config": { "ignition": { "version": IGNITION } },
        "kernelArguments": kernel_arguments(node, request, &mut printed.notes),
    });
    if request.memlock {
        spec["config"]["storage"] = json!({ "files": [memlock_file()] });
    }
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {
            "labels": { "machineconfiguration.openshift.io/role": request.role.to_string() },
            "name": format!("99-{}-wirelane-fabric", request.role),
        },
        "spec": spec,
    });
    let warning = format!(
        "applying this drains and reboots every node of the pool {}, one after the other",
        request.role
    );
    let mut manifest = Manifest::new(object).saying(format!("Careful: {warning}."));
    if request.memlock {
        manifest = manifest.saying("Containers started afterwards may lock any amount of memory.");
    }
    printed.manifests.push(manifest);
    printed.notes.push(warning);
    printed
}

fn kernel_arguments(
    node: &Node,
    request: &MachineConfigRequest,
    notes: &mut Vec<String>,
) -> Vec<&'static str> {
    let passed_through = iommu::kernel_argument(&node.host);
    let architecture = node.host.architecture.as_deref();
    if architecture == Some("aarch64") {
        return vec![passed_through];
    }
    if architecture.is_none() {
        notes.push("this node's architecture is unknown: x86_64 is assumed".to_owned());
    }
    let groups = &node.iommu.groups;
    if !groups.is_empty()
        && groups.values().all(|kind| *kind == Seen::Value(iommu::PASSTHROUGH_TYPE.to_owned()))
    {
        notes.push("this node's IOMMU passes through already".to_owned());
    }
    if !groups.is_empty() {
        return vec![passed_through];
    }
    let is_intel = node.host.cpus.vendor.as_deref() == Some("GenuineIntel");
    match (request.enable_iommu, is_intel) {
        (true, true) => vec!["intel_iommu=on", passed_through],
        // AMD's is on by default, and has no argument that switches it on.
        (true, false) => vec![passed_through],
        (false, _) => {
            notes.push(
                "this node has no IOMMU groups: its IOMMU is off and nothing translates; it is switched on only on request"
                    .to_owned(),
            );
            vec![passed_through]
        }
    }
}

fn memlock_file() -> Value {
    json!({
        "contents": { "source": data_url(memlock::CRIO_FILE) },
        "mode": 0o644,
        "overwrite": true,
        "path": "/etc/crio/crio.conf.d/99-wirelane-memlock.conf",
    })
}

/// RFC 2397, every byte that is not a letter or digit escaped.
fn data_url(text: &str) -> String {
    let mut url = "data:text/plain;charset=utf-8,".to_owned();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            url.push(char::from(byte));
        } else {
            let _ = write!(url, "%{byte:02X}");
        }
    }
    url
}

/// Read from OpenShift 4.7 on.
const IGNITION: &str = "3.2.0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_as_a_url() {
        assert_eq!(data_url("[a]\n"), "data:text/plain;charset=utf-8,%5Ba%5D%0A");
    }
}
