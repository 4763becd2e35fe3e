//! Whether a device is usable, from the host's files.
//!
//! The rule is the same in every pod, whatever assigned the device: its node is in /dev/infiniband, the port is
//! active, and it has an address in this network namespace.

use doctor::expected::device_nodes::may_open;
use node::{Device, LinkLayer, Node, NodeType, Port, Reading, Tree};

use super::assigned::is_device_name;
use super::usable_port::{DeviceVerdict, PortKind, UsablePort};

/// The device's usable ports, and why others are not.
pub(super) fn evaluate<'n>(
    node: &'n Node,
    tree: &Tree,
    device: &'n Device,
) -> (Vec<UsablePort<'n>>, Vec<DeviceVerdict>) {
    if let Err(dropped) = check_device(node, tree, device) {
        return (Vec::new(), vec![dropped]);
    }
    let (mut usable_ports, mut dropped) = (Vec::new(), Vec::new());
    for port in &device.ports {
        match check_port(node, device, port) {
            Ok(kind) => usable_ports.push(UsablePort { device, port, kind }),
            Err(reason) => dropped.push(reason),
        }
    }
    if device.ports.is_empty() {
        dropped.push(drop_device(
            device,
            "it has no port".to_owned(),
            format!("{}/ports", device.folder()),
        ));
    }
    (usable_ports, dropped)
}

fn check_device(node: &Node, tree: &Tree, device: &Device) -> Result<(), DeviceVerdict> {
    if !is_device_name(&device.name) {
        let why = "its name cannot be in a device list of NCCL or UCX".to_owned();
        return Err(drop_device(device, why, device.folder()));
    }
    if device.node_type == Reading::Value(NodeType::Rnic) {
        let why = "iWARP: NCCL and UCX connect without rdma_cm, which iWARP needs".to_owned();
        return Err(drop_device(device, why, format!("{}/node_type", device.folder())));
    }
    let Some(uverbs) = &device.uverbs else {
        let why = "no device node belongs to it; is ib_uverbs loaded?".to_owned();
        return Err(drop_device(device, why, "/sys/class/infiniband_verbs".to_owned()));
    };
    let path = format!("/dev/infiniband/{uverbs}");
    match tree.metadata(&path) {
        Reading::Value(file) if may_open(&node.process, &file).unwrap_or(true) => Ok(()),
        Reading::Value(file) => {
            let uid = node.process.uid.unwrap_or_default();
            let why = format!("user {uid} may not open its node (mode {:o})", file.mode & 0o777);
            Err(drop_device(device, why, path))
        }
        // A copy of /sys without /dev: the node is unknown.
        Reading::Absent if !tree.is_live() && tree.names("/dev").is_absent() => Ok(()),
        Reading::Absent => {
            let why = "its node is not in this container: it was not assigned to it".to_owned();
            Err(drop_device(device, why, path))
        }
        other => Err(drop_device(
            device,
            format!("its node {}", other.why_not().unwrap_or_default()),
            path,
        )),
    }
}

fn check_port(node: &Node, device: &Device, port: &Port) -> Result<PortKind, DeviceVerdict> {
    let file = |name: &str| format!("{}/ports/{}/{name}", device.folder(), port.number);
    let drop_port =
        |why: String, read: &str| Err(drop_device(device, why, file(read)).at_port(port.number));
    let Some(kind) = PortKind::of(port) else {
        let why = port.link_layer.why_not().unwrap_or_default();
        return drop_port(format!("its link layer {why}"), "link_layer");
    };
    if kind == PortKind::Efa {
        return Ok(kind);
    }
    if !port.is_active() {
        let state = port.state.value().map(|state| format!("it is {}", state.name()));
        let state = state.or_else(|| port.state.why_not().map(|why| format!("its state {why}")));
        return drop_port(state.unwrap_or_default(), "state");
    }
    match port.link_layer.value() {
        Some(LinkLayer::InfiniBand) if port.lid.value().is_none_or(|lid| *lid == 0) => {
            drop_port("no subnet manager has assigned it a LID".to_owned(), "lid")
        }
        Some(LinkLayer::InfiniBand)
            if device.node_guid.value().is_some_and(|guid| guid.is_zero()) =>
        {
            let why = "it has no GUID: registering memory fails on such functions".to_owned();
            Err(drop_device(device, why, format!("{}/node_guid", device.folder()))
                .at_port(port.number))
        }
        Some(LinkLayer::Ethernet) if !has_gid_in_namespace(node, port) => drop_port(
            "no GID belongs to a net device of this network namespace".to_owned(),
            "gid_attrs/ndevs",
        ),
        _ => Ok(kind),
    }
}

/// Whether the port has an address in this network namespace; one of another namespace cannot be used.
fn has_gid_in_namespace(node: &Node, port: &Port) -> bool {
    port.gids.iter().any(|gid| is_in_namespace(node, gid))
}

/// Whether a GID belongs to a net device of this network namespace.
pub(super) fn is_in_namespace(node: &Node, gid: &node::Gid) -> bool {
    gid.netdev.value().is_some_and(|netdev| node.netdev(netdev).is_some())
}

fn drop_device(device: &Device, why: String, read: String) -> DeviceVerdict {
    DeviceVerdict::dropped(&device.name, why, read)
}
