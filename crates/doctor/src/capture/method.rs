//! The method by which a port's packets can be captured.

use std::fmt;

use node::{Device, LinkLayer, Node, Port, Role};
use serde::Serialize;

use super::PacketKind;

/// The port whose packets are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Place<'n> {
    /// The device.
    pub device: &'n Device,
    /// The port.
    pub port: &'n Port,
}

/// Programs that can capture, as far as they are here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tools {
    /// Mellanox's own.
    pub ibdump: bool,
    /// tcpdump, with a libpcap that lists this RDMA device.
    pub sniffer: bool,
}

/// How packets can be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum Method {
    /// By a socket of our own on the net device: the kernel sees the packets of software devices.
    NetDevice {
        /// `eth0`.
        netdev: String,
        /// Whether the device speaks iWARP, over TCP.
        iwarp: bool,
    },
    /// By a program that has the card copy its packets, and writes a capture to its output.
    Program {
        /// Its name.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

/// Why packets cannot be had, and what would help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(String);

/// The port to capture: of the device that is named, else of the first one that has an active port.
pub fn choose<'n>(
    node: &'n Node,
    device: Option<&str>,
    port: Option<u32>,
) -> Result<Place<'n>, Refusal> {
    let names: Vec<&str> = node.devices.iter().map(|device| device.name.as_str()).collect();
    let fits = |known: &&Device| device.is_none_or(|name| known.name == name);
    let mut places = Vec::new();
    for device in node.devices.iter().filter(fits) {
        let ports =
            device.ports.iter().filter(|known| port.is_none_or(|port| known.number == port));
        places.extend(ports.map(|port| Place { device, port }));
    }
    let active = places.iter().find(|place| place.port.is_active());
    active.or(places.first()).copied().ok_or_else(|| match (device, port) {
        _ if names.is_empty() => Refusal("there is no RDMA device here".to_owned()),
        (Some(name), Some(port)) if names.contains(&name) => {
            Refusal(format!("{name} has no port {port}"))
        }
        (Some(name), _) => {
            Refusal(format!("there is no RDMA device {name:?}; there: {}", names.join(", ")))
        }
        (None, _) => Refusal("no device has that port".to_owned()),
    })
}

impl Method {
    /// How a port's packets can be had with these programs.
    pub fn of(place: Place<'_>, tools: Tools) -> Result<Method, Refusal> {
        let Place { device, port } = place;
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
                "{name}: EFA gives no copy of its packets to anybody: {COUNT}"
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
        Err(Refusal(format!("{name}: {}", lacking(driver, mellanox, layer))))
    }

    fn program(program: &str, arguments: &[&str]) -> Method {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        Method::Program { program: program.to_owned(), arguments }
    }

    /// What it sees and what it does not.
    pub fn sees(&self) -> &'static str {
        match self {
            Method::NetDevice { iwarp: false, .. } => {
                "RoCE packets of this device in both directions: it is software, and the kernel sees them. \
                 Not what two queue pairs of one device send to each other"
            }
            Method::NetDevice { iwarp: true, .. } => {
                "all TCP packets of the net device, iWARP's among them"
            }
            Method::Program { program, .. } if program == "ibdump" => {
                "packets that the card copies to ibdump in both directions. Bursts of more than 4096 lose some, \
                 in silence; retransmitted and multicast packets may be missing"
            }
            Method::Program { .. } => {
                "RoCE v2 packets that the card copies to libpcap's sniffer; whether sent ones are among them \
                 depends on the driver. A fast link loses some"
            }
        }
    }

    /// Whether a packet of a net device is one that was asked for.
    pub fn wants(&self, kind: PacketKind) -> bool {
        match self {
            Method::NetDevice { iwarp: true, .. } => kind == PacketKind::Tcp,
            Method::NetDevice { .. } => matches!(kind, PacketKind::RoceV2 | PacketKind::RoceV1),
            Method::Program { .. } => true,
        }
    }
}

fn lacking(driver: &str, mellanox: bool, layer: Option<LinkLayer>) -> String {
    let bypass =
        "hardware moves its packets past the kernel, so that a capture on the net device sees none";
    match (mellanox, layer) {
        (true, Some(LinkLayer::Ethernet)) => {
            format!(
                "{bypass}; install ibdump (in MLNX_OFED and DOCA), or tcpdump with a libpcap that knows RDMA devices"
            )
        }
        (true, _) => {
            "InfiniBand is captured by ibdump (in MLNX_OFED and DOCA), which is not here".to_owned()
        }
        (false, Some(LinkLayer::Ethernet)) => {
            format!("{bypass}; install tcpdump with a libpcap that knows RDMA devices. {COUNT}")
        }
        (false, _) => {
            format!("no known method captures packets of the driver {driver}: {COUNT}")
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// What helps without packets.
const COUNT: &str =
    "a switch that mirrors the port sees them, and `wirelane devices --json` has the counters";
