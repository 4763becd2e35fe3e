//! Whether a device works here, by the host's own files.
//!
//! The rule holds in every pod, whatever gave the device to it: its node is in /dev/infiniband, the port is
//! active, and there is an address of this network namespace to reach it by.

use doctor::limits::device_nodes::may_open;
use node::{Device, LinkLayer, Node, NodeType, Port, Seen, Tree};

use super::claim::is_device_name;
use super::rail::{Judged, Rail, RailKind};

/// The device's ports that work, and why others do not.
pub(super) fn judge<'n>(
    node: &'n Node,
    tree: &Tree,
    device: &'n Device,
) -> (Vec<Rail<'n>>, Vec<Judged>) {
    if let Err(dropped) = judge_device(node, tree, device) {
        return (Vec::new(), vec![dropped]);
    }
    let (mut rails, mut dropped) = (Vec::new(), Vec::new());
    for port in &device.ports {
        match judge_port(node, device, port) {
            Ok(kind) => rails.push(Rail { device, port, kind }),
            Err(reason) => dropped.push(reason),
        }
    }
    if device.ports.is_empty() {
        dropped.push(no(device, "it has no port".to_owned(), format!("{}/ports", device.folder())));
    }
    (rails, dropped)
}

fn judge_device(node: &Node, tree: &Tree, device: &Device) -> Result<(), Judged> {
    if !is_device_name(&device.name) {
        let why = "its name cannot be written in a list of devices".to_owned();
        return Err(no(device, why, device.folder()));
    }
    if device.node_type == Seen::Value(NodeType::Rnic) {
        let why = "iWARP: NCCL and UCX connect without rdma_cm, which iWARP needs".to_owned();
        return Err(no(device, why, format!("{}/node_type", device.folder())));
    }
    let Some(uverbs) = &device.uverbs else {
        let why = "no device node belongs to it; is ib_uverbs loaded?".to_owned();
        return Err(no(device, why, "/sys/class/infiniband_verbs".to_owned()));
    };
    let path = format!("/dev/infiniband/{uverbs}");
    match tree.node(&path) {
        Seen::Value(file) if may_open(&node.process, &file).unwrap_or(true) => Ok(()),
        Seen::Value(file) => {
            let uid = node.process.uid.unwrap_or_default();
            let why = format!("user {uid} may not open its node (mode {:o})", file.mode & 0o777);
            Err(no(device, why, path))
        }
        // Somebody's copy of /sys: whether it had a /dev is not known.
        Seen::Absent if !tree.is_live() && tree.names("/dev").is_absent() => Ok(()),
        Seen::Absent => {
            let why = "its node is not in this container: it was not given to it".to_owned();
            Err(no(device, why, path))
        }
        other => Err(no(device, format!("its node {}", other.why_not().unwrap_or_default()), path)),
    }
}

fn judge_port(node: &Node, device: &Device, port: &Port) -> Result<RailKind, Judged> {
    let file = |name: &str| format!("{}/ports/{}/{name}", device.folder(), port.number);
    let no = |why: String, read: &str| Err(no(device, why, file(read)).at(port.number));
    let Some(kind) = RailKind::of(port) else {
        let why = port.link_layer.why_not().unwrap_or_default();
        return no(format!("its link layer {why}"), "link_layer");
    };
    if kind == RailKind::Efa {
        return Ok(kind);
    }
    if !port.is_active() {
        let state = port.state.value().map(|state| format!("it is {}", state.name()));
        let state = state.or_else(|| port.state.why_not().map(|why| format!("its state {why}")));
        return no(state.unwrap_or_default(), "state");
    }
    match port.link_layer.value() {
        Some(LinkLayer::InfiniBand) if port.lid.value().is_none_or(|lid| *lid == 0) => {
            no("no subnet manager has given it a LID".to_owned(), "lid")
        }
        Some(LinkLayer::InfiniBand)
            if device.node_guid.value().is_some_and(|guid| guid.is_zero()) =>
        {
            let why =
                "nobody gave it a GUID: registering memory fails on such functions".to_owned();
            Err(self::no(device, why, format!("{}/node_guid", device.folder())).at(port.number))
        }
        Some(LinkLayer::Ethernet) if !has_gid_here(node, port) => no(
            "no GID belongs to a net device of this network namespace".to_owned(),
            "gid_attrs/ndevs",
        ),
        _ => Ok(kind),
    }
}

/// Whether the port has an address that is reached from here; another namespace's cannot be used.
fn has_gid_here(node: &Node, port: &Port) -> bool {
    port.gids.iter().any(|gid| is_here(node, gid))
}

/// Whether a GID belongs to a net device of this network namespace.
pub(super) fn is_here(node: &Node, gid: &node::Gid) -> bool {
    gid.netdev.value().is_some_and(|netdev| node.netdev(netdev).is_some())
}

fn no(device: &Device, why: String, read: String) -> Judged {
    Judged::dropped(&device.name, why, read)
}
