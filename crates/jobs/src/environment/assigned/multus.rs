//! Multus: the annotation `k8s.v1.cni.cncf.io/network-status`, where the pod has it as a file by the downward API.
//!
//! The file has the same devices as the variables, and more with an old plugin. It is rewritten while the pod
//! starts, so an incomplete or missing file is not an error.

use node::{Reading, Tree};
use serde::Deserialize;

use super::{AssignedDevice, AssignedDevices, DeviceId};

pub(super) fn gather(tree: &Tree, assigned_devices: &mut AssignedDevices) {
    for path in FILES {
        let Reading::Value(text) = tree.text(path) else { continue };
        match networks(&text) {
            Ok(networks) => {
                networks.into_iter().for_each(|network| add(path, network, assigned_devices))
            }
            Err(reason) => assigned_devices.warnings.push(format!("{path} is not used: {reason}")),
        }
    }
}

#[derive(Deserialize)]
struct Network {
    #[serde(rename = "device-info")]
    device_info: Option<DeviceInfo>,
}

#[derive(Deserialize)]
struct DeviceInfo {
    pci: Option<Pci>,
}

#[derive(Deserialize)]
struct Pci {
    #[serde(rename = "pci-address")]
    address: Option<String>,
    #[serde(rename = "rdma-device")]
    rdma_device: Option<String>,
}

/// A file has only the annotation, or all annotations: a line each, `name="value"` with the value quoted.
fn networks(text: &str) -> Result<Vec<Network>, String> {
    let among_all = text.lines().find_map(|line| line.strip_prefix(ANNOTATION)?.strip_prefix('='));
    let status = match among_all {
        Some(value) => {
            serde_json::from_str(value).map_err(|error| format!("{ANNOTATION}: {error}"))?
        }
        None if text.starts_with('[') => text.to_owned(),
        None => return Ok(Vec::new()),
    };
    serde_json::from_str(&status)
        .map_err(|error| format!("{ANNOTATION} is not in Multus's format: {error}"))
}

fn add(path: &str, network: Network, assigned_devices: &mut AssignedDevices) {
    let Some(pci) = network.device_info.and_then(|info| info.pci) else { return };
    let Some(id) = pci.address.as_deref().and_then(DeviceId::parse) else { return };
    match AssignedDevice::new(id, path).with_rdma(pci.rdma_device, None) {
        Ok(assigned_device) => assigned_devices.add(assigned_device),
        Err(reason) => assigned_devices.warnings.push(format!("{path} {reason}")),
    }
}

const ANNOTATION: &str = "k8s.v1.cni.cncf.io/network-status";
/// Its path in manifests: ours, the network resources injector's, the Kubernetes documentation's.
const FILES: [&str; 3] =
    ["/etc/podnetinfo/network-status", "/etc/podnetinfo/annotations", "/etc/podinfo/annotations"];

#[cfg(test)]
mod tests {
    use super::super::super::test_machine;
    use super::*;
    use serde_json::json;

    const STATUS: &str = r#"[{"name":"ovn","interface":"eth0","ips":["10.1.2.3"]},{"name":"rdma","interface":
        "net1","device-info":{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:3b:02.6",
        "rdma-device":"mlx5_4"}}}]"#;

    fn assigned_devices(path: &str, text: &str) -> AssignedDevices {
        let mut assigned_devices = AssignedDevices::default();
        gather(&test_machine::tree(json!({ path: text })), &mut assigned_devices);
        assigned_devices
    }

    #[test]
    fn the_annotation_is_found_alone_and_among_others() {
        let quoted = serde_json::to_string(STATUS).expect("a string");
        let all = format!("a=\"b\"\n{ANNOTATION}={quoted}\nz=\"\"\n");
        for (path, text) in [(FILES[0], STATUS), (FILES[1], &all)] {
            let assigned_devices = assigned_devices(path, text);
            assert_eq!(assigned_devices.devices.len(), 1, "{path} {assigned_devices:?}");
            assert_eq!(assigned_devices.devices[0].rdma_device.as_deref(), Some("mlx5_4"));
        }
    }

    #[test]
    fn an_incomplete_file_is_a_warning() {
        let assigned_devices = assigned_devices(FILES[0], &STATUS[..100]);
        assert!(assigned_devices.devices.is_empty() && assigned_devices.errors.is_empty());
        assert_eq!(assigned_devices.warnings.len(), 1);
    }
}
