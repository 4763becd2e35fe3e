//! Devices as an indented tree.

use std::fmt::Write;

use node::{
    Address, Device, Function, Gid, GidType, LinkLayer, Node, NodeType, PciLink, Port, Reading,
    Role,
};

use crate::links::rdma::Rdma;

/// Every device with its ports.
pub(super) fn render(node: &Node, verbs: Option<&Rdma>, wide: bool) -> String {
    let view = View { node, verbs, wide };
    let devices: Vec<String> = node.devices.iter().map(|device| view.device(device)).collect();
    devices.join("")
}

/// The data, and the level of detail.
struct View<'v> {
    node: &'v Node,
    verbs: Option<&'v Rdma>,
    wide: bool,
}

impl View<'_> {
    fn device(&self, device: &Device) -> String {
        let function = device.pci.and_then(|address| self.node.pci.get(&address));
        let mut text = format!("{}\n", words(&self.title(device, function), "  "));
        let mut line = |depth: usize, words: &str| {
            if !words.is_empty() {
                let _ = writeln!(text, "{:depth$}{words}", "");
            }
        };
        line(2, &self.location(device, function));
        if self.wide {
            line(2, &identity(device));
            for hop in function.map_or(&[][..], |function| &function.above) {
                line(4, &self.hop(*hop));
            }
        }
        for port in &device.ports {
            line(2, &self.port(device, port));
            for gid in &self.gids(device, port) {
                line(4, gid);
            }
            if self.wide {
                line(4, &pkeys(port));
            }
        }
        text
    }

    /// `mlx5_0  mlx5_core  ConnectX-7  firmware 28.41.1000`.
    fn title(&self, device: &Device, function: Option<&Function>) -> Vec<String> {
        let product = function.and_then(|function| function.product_name.clone());
        let numbers = || {
            let function = function?;
            Some(format!("{:04x}:{:04x}", function.vendor.value()?, function.device.value()?))
        };
        let board = || device.board_id.value().cloned();
        let model = product.or_else(board).or_else(numbers);
        let firmware = device.firmware.value().map(|version| format!("firmware {version}"));
        [Some(device.name.clone()), device.driver.clone(), model, firmware]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Its PCIe slot, NUMA node, role, and /dev node.
    fn location(&self, device: &Device, function: Option<&Function>) -> String {
        let mut parts: Vec<String> = device.pci.iter().map(Address::to_string).collect();
        parts.extend(function.and_then(|function| link(&function.link)));
        parts.extend(device.numa_node.map(|number| format!("NUMA {number}")));
        parts.extend(match &device.role {
            Role::Virtual { of, number } => {
                let number = number.map(|number| format!(" {number}")).unwrap_or_default();
                Some(format!("virtual function{number} of {of}"))
            }
            Role::Physical { vfs: Some(vfs @ 1..), .. } => {
                Some(count(*vfs as usize, "virtual function"))
            }
            Role::Software => Some("software".to_owned()),
            Role::Physical { .. } | Role::Unknown => None,
        });
        parts.extend(self.access(device));
        words(&parts, ", ")
    }

    /// The node in `/dev`, or that it is missing; `None` if unknown.
    fn access(&self, device: &Device) -> Option<String> {
        let node = format!("/dev/infiniband/{}", device.uverbs.as_ref()?);
        let exists = self.node.char_devices.iter().any(|known| known.path == node);
        Some(if exists { node } else { format!("no {node} here") })
    }

    fn hop(&self, address: Address) -> String {
        let Some(function) = self.node.pci.get(&address) else { return address.to_string() };
        let name = function.product_name.clone();
        let parts = [Some(format!("below {address}")), link(&function.link), name];
        words(&parts.into_iter().flatten().collect::<Vec<_>>(), ", ")
    }

    /// `port 1  ACTIVE, LinkUp  400 Gb/s (4X NDR)  InfiniBand  LID 0x40  ib0`.
    fn port(&self, device: &Device, port: &Port) -> String {
        let state = port.state.clone().map(|state| state.name().to_owned());
        let phys = port.phys_state.clone().map(|state| format!("{state:?}"));
        let lid = port.lid.value().filter(|_| is_infiniband(port));
        let sm = port.sm_lid.value().filter(|_| self.wide && is_infiniband(port));
        let layer = port.link_layer.value().filter(|layer| **layer != LinkLayer::Unknown);
        let parts = [
            Some(format!("port {}", port.number)),
            Some(format!("{}, {}", or_why(state), or_why(phys))),
            Some(or_why(port.rate.clone().map(|rate| rate.to_string()))),
            layer.map(|layer| layer.name().to_owned()),
            lid.map(|lid| format!("LID {lid:#x}")),
            sm.map(|lid| format!("subnet manager {lid:#x}")),
            self.mtu(device, port),
            port.netdev.as_ref().map(|name| self.netdev(name)),
        ];
        words(&parts.into_iter().flatten().collect::<Vec<_>>(), "  ")
    }

    /// From libibverbs; from files on RoCE only.
    fn mtu(&self, device: &Device, port: &Port) -> Option<String> {
        let reported = self.verbs.and_then(|verbs| verbs.device(&device.name));
        let ports = reported.and_then(|device| Some(&device.facts.as_ref().ok()?.ports));
        let same =
            ports.and_then(|ports| ports.iter().find(|known| u32::from(known.port) == port.number));
        let mtu = same.map(|known| known.active_mtu).or(port.active_mtu)?;
        Some(format!("MTU {mtu}"))
    }

    fn netdev(&self, name: &str) -> String {
        let Some(netdev) = self.node.netdev(name) else { return name.to_owned() };
        let mtu = netdev.mtu.value().map(|mtu| format!(" (MTU {mtu})")).unwrap_or_default();
        format!("{name}{mtu}")
    }

    /// The GIDs that peers can use, and the number of others.
    fn gids(&self, device: &Device, port: &Port) -> Vec<String> {
        let roce = device.node_type == Reading::Value(NodeType::ChannelAdapter)
            && port.link_layer == Reading::Value(LinkLayer::Ethernet);
        let (listed, folded): (Vec<&Gid>, Vec<&Gid>) =
            port.gids.iter().partition(|gid| self.wide || !roce || is_routable(gid));
        let mut lines: Vec<String> = listed.iter().map(|gid| gid_line(gid)).collect();
        if !folded.is_empty() {
            let foreign = folded.iter().all(|gid| gid.kind == Reading::Refused(EINVAL));
            lines.push(match (foreign, listed.is_empty()) {
                (true, _) => format!("{} of other network namespaces", count(folded.len(), "GID")),
                (false, true) => {
                    format!("{}, none of them routable RoCE v2", count(folded.len(), "GID"))
                }
                (false, false) => count(folded.len(), "other GID"),
            });
        }
        lines
    }
}

fn is_routable(gid: &Gid) -> bool {
    gid.kind == Reading::Value(GidType::RoceV2) && !gid.is_link_local()
}

/// `1 GID`, `2 GIDs`.
fn count(number: usize, of: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {of}{plural}")
}

fn gid_line(gid: &Gid) -> String {
    let kind = or_why(gid.kind.clone().map(|kind| kind.name().to_owned()));
    let netdev = gid.netdev.value().map(|name| format!("  {name}")).unwrap_or_default();
    format!("GID {}  {}  {kind}{netdev}", gid.index, gid.gid)
}

/// `PCIe 32 GT/s x8 of x16 (252 of 504 Gb/s)`.
fn link(link: &PciLink) -> Option<String> {
    let of = |now: Option<String>, most: Option<String>| match (now, most) {
        (Some(now), Some(most)) if now != most => Some(format!("{now} of {most}")),
        (now, _) => now,
    };
    let speed = |speed: Option<f64>| speed.map(|speed| format!("{speed}"));
    let width = |width: Option<u32>| width.map(|width| format!("x{width}"));
    let gbps = |gbps: Option<f64>| gbps.map(|gbps| format!("{gbps:.0}"));
    let (now, most) = link.gbps();
    Some(format!(
        "PCIe {} GT/s {} ({} Gb/s)",
        of(speed(link.speed_gts), speed(link.max_speed_gts))?,
        of(width(link.width), width(link.max_width))?,
        of(gbps(now), gbps(most))?
    ))
}

fn identity(device: &Device) -> String {
    let named = |name: &str, value: Option<String>| value.map(|value| format!("{name} {value}"));
    let parts = [
        named("model", device.hca_type.value().cloned()),
        named("board", device.board_id.value().cloned()),
        named("node GUID", device.node_guid.value().map(ToString::to_string)),
        named("system GUID", device.sys_image_guid.value().map(ToString::to_string)),
        named("description", device.node_desc.value().cloned()),
        named("near CPUs", device.local_cpus.clone()),
    ];
    words(&parts.into_iter().flatten().collect::<Vec<_>>(), ", ")
}

fn pkeys(port: &Port) -> String {
    if port.pkeys.is_empty() {
        return String::new();
    }
    let keys: Vec<String> = port.pkeys.iter().map(|key| format!("{key:#06x}")).collect();
    format!("partition keys {}", keys.join(" "))
}

fn is_infiniband(port: &Port) -> bool {
    port.link_layer == Reading::Value(LinkLayer::InfiniBand)
}

/// The value, or why it is missing.
fn or_why(seen: Reading<String>) -> String {
    let why = seen.why_not();
    seen.into_value().or(why).unwrap_or_default()
}

fn words(parts: &[String], between: &str) -> String {
    parts.join(between)
}

/// The error of reading the type of a GID that belongs to another network namespace.
const EINVAL: i32 = 22;
