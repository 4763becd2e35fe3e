//! What a net device's driver tells by ethtool.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A net device's answers; what its driver does not tell is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ethtool {
    /// `mlx5_core`.
    pub driver: Option<String>,
    /// The card's firmware.
    pub firmware: Option<String>,
    /// The speed now, in Mb/s.
    pub speed_mbps: Option<u32>,
    /// Whether the speed is negotiated.
    pub autonegotiation: Option<bool>,
    /// Speeds that the port can have, that it tells its partner, and that its partner tells.
    pub modes: Option<LinkModes>,
    /// Receive and transmit rings.
    pub rings: Option<Rings>,
    /// How interrupts are held back.
    pub coalescing: Option<Coalescing>,
    /// Pause frames for the whole port.
    pub pause: Option<Pause>,
    /// What is plugged into the port.
    pub module: Option<PluggableModule>,
    /// Counters of pauses, drops and errors, by the driver's names.
    pub statistics: BTreeMap<String, u64>,
}

/// Speeds in Mb/s, ascending, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkModes {
    /// What the port can do with what is plugged in.
    pub supported_mbps: Vec<u32>,
    /// What it tells its partner.
    pub advertised_mbps: Vec<u32>,
    /// What its partner tells; empty if it tells nothing.
    pub partner_mbps: Vec<u32>,
}

/// Entries of the rings, now and at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    /// Receive, now.
    pub rx: u32,
    /// Receive, at most.
    pub rx_max: u32,
    /// Transmit, now.
    pub tx: u32,
    /// Transmit, at most.
    pub tx_max: u32,
}

/// How interrupts are held back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coalescing {
    /// Microseconds that a received packet waits at most.
    pub rx_usecs: u32,
    /// Microseconds that a sent packet's completion waits at most.
    pub tx_usecs: u32,
    /// Whether the driver chooses for receiving.
    pub adaptive_rx: bool,
    /// Whether the driver chooses for sending.
    pub adaptive_tx: bool,
}

/// Pause frames for the whole port (802.3x).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Whether both ends agree on it.
    pub autonegotiation: bool,
    /// Whether we stop when told.
    pub rx: bool,
    /// Whether we tell others to stop.
    pub tx: bool,
}

/// A cable or transceiver; its serial number is not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PluggableModule {
    /// `QSFP28`.
    pub form: Option<String>,
    /// Who made it.
    pub vendor: Option<String>,
    /// Its part number.
    pub part: Option<String>,
    /// Its length in metres, of a cable.
    pub length_m: Option<u32>,
    /// What it is made for, in Mb/s.
    pub nominal_mbps: Option<u32>,
}

pub(super) fn ask() -> Option<BTreeMap<String, Ethtool>> {
    None
}
