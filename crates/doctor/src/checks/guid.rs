//! Virtual functions without a GUID.

use node::{Device, Guid, NodeType, Port, Reading};

use crate::input::is_virtual;
use crate::{Check, CheckInput, Finding};

pub(super) const CHECK: Check = Check {
    name: "guid",
    title: "every device has a GUID",
    why: "A virtual function without a GUID exists and looks usable, but registering memory or \
          creating a queue pair on it fails.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    input.devices().into_iter().filter_map(|device| check_device(input, device)).collect()
}

/// InfiniBand and RoCE only: EFA and iWARP work without a GUID.
fn check_device(input: &CheckInput<'_>, device: &Device) -> Option<Finding> {
    if device.node_type != Reading::Value(NodeType::ChannelAdapter) {
        return None;
    }
    let guid = *device.node_guid.value()?;
    if !is_unset(guid) || device.pci.is_none() {
        return Some(Finding::ok(&*device.name, "has a GUID"));
    }
    let in_use = input.node.host.container.is_some() || device.ports.iter().any(Port::is_active);
    let summary = "GUID is zero: none was assigned";
    let finding = if in_use || !is_virtual(device) {
        Finding::problem(&*device.name, summary)
    } else {
        Finding::warning(&*device.name, summary)
    };
    let finding = finding.evidence(input.file(format!("{}/node_guid", device.folder())));
    Some(
        finding
            .fix(
                "Kubernetes on InfiniBand: ib-sriov-cni with ib-kubernetes assigns GUIDs; set \
                 `infinibandGUID` in the network.",
            )
            .fix(
                "Manually on the host: `ip link set PF vf NUMBER node_guid GUID port_guid GUID`, \
                 then rebind the function's driver.",
            ),
    )
}

/// Zero, or derived from a zero MAC address.
fn is_unset(guid: Guid) -> bool {
    guid.is_zero() || guid.0 == 0x0000_00ff_fe00_0000
}
