//! How a port's packets can be captured.

use std::fmt;

use node::{Device, LinkLayer, Node, Port, Role};
use serde::Serialize;

use super::PacketKind;

/// The port to capture.
#[derive(Debug, Clone, Copy)]
pub struct CapturePort<'n> {
    /// The device.
    pub device: &'n Device,
    /// The port.
    pub port: &'n Port,
}

/// Installed programs that can capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tools {
    /// ibdump of Mellanox.
    pub ibdump: bool,
    /// tcpdump, with a libpcap that lists this RDMA device.
    pub sniffer: bool,
}

/// How packets are captured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum Method {
    /// With a packet socket on the net device: packets of software devices pass through the kernel.
    NetDevice {
        /// `eth0`.
        netdev: String,
        /// Whether the device is iWARP, over TCP.
        iwarp: bool,
    },
    /// With a program that makes the NIC copy its packets, and writes a capture to its stdout.
    Program {
        /// Its name.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

/// Why packets cannot be captured, and what would help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(String);

/// Selects the port to capture: of the named device, else of the first device with an active port.
pub fn choose<'n>(
    node: &'n Node,
    device: Option<&str>,
    port: Option<u32>,
) -> Result<CapturePort<'n>, Refusal> {
    let names: Vec<&str> = node.devices.iter().map(|device| device.name.as_str()).collect();
    let fits = |known: &&Device| device.is_none_or(|name| known.name == name);
    let mut candidates = Vec::new();
    for device in node.devices.iter().filter(fits) {
        let ports =
            device.ports.iter().filter(|known| port.is_none_or(|port| known.number == port));
        candidates.extend(ports.map(|port| CapturePort { device, port }));
    }
    let active = candidates.iter().find(|candidate| candidate.port.is_active());
    active.or(candidates.first()).copied().ok_or_else(|| match (device, port) {
        _ if names.is_empty() => Refusal("no RDMA device found".to_owned()),
        (Some(name), Some(port)) if names.contains(&name) => {
            Refusal(format!("{name} has no port {port}"))
        }
        (Some(name), _) => {
            Refusal(format!("no RDMA device {name:?}; devices: {}", names.join(", ")))
        }
        (None, _) => Refusal("no device has that port".to_owned()),
    })
}

impl Method {
    /// The method for a port, with these programs.
    pub fn new(port: CapturePort<'_>, tools: Tools) -> Result<Method, Refusal> {
        let CapturePort { device, port } = port;
        let name = &device.name;
        let driver = device.driver.as_deref().unwrap_or("unknown");
        let layer = port.link_layer.value().copied();
        if device.role == Role::Software {
            let netdev = port.netdev.clone().ok_or_else(|| {
                Refusal(format!("{name}: its net device is not in this network namespace"))
            })?;
            return Ok(Method::NetDevice { netdev, iwarp: driver == "siw" });
        }
        if driver == "efa" || layer == Some(LinkLayer::Unknown) {
            return Err(Refusal(format!(
                "{name}: packets of EFA cannot be captured: {ALTERNATIVES}"
            )));
        }
        let mellanox = matches!(driver, "mlx4_core" | "mlx5_core");
        if mellanox && tools.ibdump {
            let port = port.number.to_string();
            return Ok(Method::program("ibdump", &["-d", name, "-i", &port, "-s", "-w", "-"]));
        }
        if layer == Some(LinkLayer::Ethernet) && tools.sniffer {
            return Ok(Method::program("tcpdump", &["-i", name, "-U", "-w", "-", "udp port 4791"]));
        }
        Err(Refusal(format!("{name}: {}", missing_tools(driver, mellanox, layer))))
    }

    fn program(program: &str, arguments: &[&str]) -> Method {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        Method::Program { program: program.to_owned(), arguments }
    }

    /// Which packets it captures.
    pub fn coverage(&self) -> &'static str {
        match self {
            Method::NetDevice { iwarp: false, .. } => {
                "RoCE packets of this software device in both directions, \
                 except packets between two queue pairs of the same device"
            }
            Method::NetDevice { iwarp: true, .. } => {
                "all TCP packets of the net device, including iWARP"
            }
            Method::Program { program, .. } if program == "ibdump" => {
                "packets that the NIC copies to ibdump in both directions. Bursts of more than 4096 packets are \
                 silently truncated; retransmitted and multicast packets may be missing"
            }
            Method::Program { .. } => {
                "RoCE v2 packets that the NIC copies to libpcap's sniffer; whether this includes sent packets \
                 depends on the driver. Some are lost on a fast link"
            }
        }
    }

    /// Whether a packet of the net device belongs to the capture.
    pub fn wants(&self, kind: PacketKind) -> bool {
        match self {
            Method::NetDevice { iwarp: true, .. } => kind == PacketKind::Tcp,
            Method::NetDevice { .. } => matches!(kind, PacketKind::RoceV2 | PacketKind::RoceV1),
            Method::Program { .. } => true,
        }
    }
}

fn missing_tools(driver: &str, mellanox: bool, layer: Option<LinkLayer>) -> String {
    let bypass = "its packets bypass the kernel, so that a capture on the net device sees none";
    match (mellanox, layer) {
        (true, Some(LinkLayer::Ethernet)) => {
            format!(
                "{bypass}; install ibdump (in MLNX_OFED and DOCA), or tcpdump with a libpcap that supports RDMA devices"
            )
        }
        (true, _) => {
            "capturing InfiniBand needs ibdump (in MLNX_OFED and DOCA), which is not installed"
                .to_owned()
        }
        (false, Some(LinkLayer::Ethernet)) => {
            format!(
                "{bypass}; install tcpdump with a libpcap that supports RDMA devices; or: {ALTERNATIVES}"
            )
        }
        (false, _) => {
            format!("no known method captures packets of the driver {driver}: {ALTERNATIVES}")
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// What helps without a capture on the host.
const ALTERNATIVES: &str =
    "mirror the port on the switch, or use the counters of `wirelane devices --json`";
