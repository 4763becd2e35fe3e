//! MachineConfig: kernel arguments and files of OpenShift nodes.

use std::fmt::Write;

use doctor::expected::{iommu, memlock};
use node::{Node, Reading};
use serde_json::{Value, json};

use super::{Manifest, ManifestSet, Name};

/// The settings of the nodes.
#[derive(Debug)]
pub struct MachineConfigRequest<'r> {
    /// The pool: `worker`.
    pub role: &'r Name,
    /// Whether to switch on an IOMMU that is off.
    pub enable_iommu: bool,
    /// Whether containers may lock any amount of memory.
    pub memlock: bool,
}

/// IOMMU pass-through for this node's architecture, and CRI-O's memlock limit.
pub fn machine_config(node: &Node, request: &MachineConfigRequest) -> ManifestSet {
    let mut set = ManifestSet::default();
    let mut spec = json!({
        "config": { "ignition": { "version": IGNITION } },
        "kernelArguments": kernel_arguments(node, request, &mut set.notes),
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
    let mut manifest = Manifest::new(object).with_comment(format!("Careful: {warning}."));
    if request.memlock {
        manifest =
            manifest.with_comment("Containers started afterwards may lock any amount of memory.");
    }
    set.manifests.push(manifest);
    set.notes.push(warning);
    set
}

fn kernel_arguments(
    node: &Node,
    request: &MachineConfigRequest,
    notes: &mut Vec<String>,
) -> Vec<&'static str> {
    let pass_through = iommu::kernel_argument(&node.host);
    let architecture = node.host.architecture.as_deref();
    if architecture == Some("aarch64") {
        return vec![pass_through];
    }
    if architecture.is_none() {
        notes.push("the architecture of this node is unknown: x86_64 is assumed".to_owned());
    }
    let groups = &node.iommu.groups;
    if !groups.is_empty()
        && groups.values().all(|kind| *kind == Reading::Value(iommu::PASSTHROUGH_TYPE.to_owned()))
    {
        notes.push("the IOMMU of this node is already in pass-through mode".to_owned());
    }
    if !groups.is_empty() {
        return vec![pass_through];
    }
    let is_intel = node.host.cpus.vendor.as_deref() == Some("GenuineIntel");
    match (request.enable_iommu, is_intel) {
        (true, true) => vec!["intel_iommu=on", pass_through],
        // AMD's is on by default, without an argument for it.
        (true, false) => vec![pass_through],
        (false, _) => {
            notes.push(
                "this node has no IOMMU groups: its IOMMU is off; it is switched on only on request"
                    .to_owned(),
            );
            vec![pass_through]
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

/// A data URL (RFC 2397), with every byte escaped that is not a letter or digit.
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

/// Supported since OpenShift 4.7.
const IGNITION: &str = "3.2.0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_as_a_url() {
        assert_eq!(data_url("[a]\n"), "data:text/plain;charset=utf-8,%5Ba%5D%0A");
    }
}
