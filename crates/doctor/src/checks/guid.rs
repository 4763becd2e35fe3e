//! Virtual functions without a GUID.

use node::{Device, Guid, NodeType, Port, Seen};

use crate::case::is_virtual;
use crate::{Case, Check, Finding};

pub(super) const CHECK: Check = Check {
    name: "guid",
    title: "every device has a GUID",
    why: "A virtual function that nobody gave a GUID is there and looks usable, but registering \
          memory or making a queue pair on it fails.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    case.devices().into_iter().filter_map(|device| of_device(case, device)).collect()
}

/// InfiniBand and RoCE alone: EFA and iWARP work without a GUID.
fn of_device(case: &Case<'_>, device: &Device) -> Option<Finding> {
    if device.node_type != Seen::Value(NodeType::ChannelAdapter) {
        return None;
    }
    let guid = *device.node_guid.value()?;
    if !is_unset(guid) || device.pci.is_none() {
        return Some(Finding::ok(&*device.name, "has a GUID"));
    }
    let in_use = case.node.host.container.is_some() || device.ports.iter().any(Port::is_active);
    let summary = "GUID is zero: nobody has given one";
    let finding = if in_use || !is_virtual(device) {
        Finding::problem(&*device.name, summary)
    } else {
        Finding::warning(&*device.name, summary)
    };
    let finding = finding.read(case.file(format!("{}/node_guid", device.folder())));
    Some(
        finding
            .fix(
                "Kubernetes on InfiniBand: ib-sriov-cni with ib-kubernetes gives GUIDs; ask for \
                 `infinibandGUID` in the network.",
            )
            .fix(
                "By hand on the host: `ip link set PF vf NUMBER node_guid GUID port_guid GUID`, \
                 then bind the function's driver again.",
            ),
    )
}

/// Zero, or made of a hardware address that is zero.
fn is_unset(guid: Guid) -> bool {
    guid.is_zero() || guid.0 == 0x0000_00ff_fe00_0000
}
