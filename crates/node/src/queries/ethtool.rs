//! Facts of net devices from ethtool.

mod driver;
pub(super) mod eeprom;
mod modes;
mod statistics;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Interface;
use driver::{Driver, DriverSocket};
pub(crate) use statistics::{EthtoolSocket, StatisticNames};

/// The facts of a net device; `None` for what its driver does not report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ethtool {
    /// `mlx5_core`.
    pub driver: Option<String>,
    /// The NIC's firmware.
    pub firmware: Option<String>,
    /// The speed now, in Mb/s.
    pub speed_mbps: Option<u32>,
    /// Whether the speed is negotiated.
    pub autonegotiation: Option<bool>,
    /// Speeds that the port supports, that it advertises, and that its link partner advertises.
    pub modes: Option<LinkModes>,
    /// Receive and transmit rings.
    pub rings: Option<Rings>,
    /// Interrupt coalescing.
    pub coalescing: Option<Coalescing>,
    /// Pause frames for the whole port.
    pub pause: Option<Pause>,
    /// The cable or transceiver.
    pub module: Option<PluggableModule>,
    /// The driver's statistics that [`crate::counters::statistic`] knows, by its own names.
    pub statistics: BTreeMap<String, u64>,
}

/// Speeds in Mb/s, ascending, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkModes {
    /// Supported with the plugged cable or transceiver.
    pub supported_mbps: Vec<u32>,
    /// Advertised to the link partner.
    pub advertised_mbps: Vec<u32>,
    /// Advertised by the link partner; empty if not known.
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

/// Interrupt coalescing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coalescing {
    /// The maximum delay of a received packet, in microseconds.
    pub rx_usecs: u32,
    /// The maximum delay of a sent packet's completion, in microseconds.
    pub tx_usecs: u32,
    /// Whether the driver adapts the delay for receiving.
    pub adaptive_rx: bool,
    /// Whether the driver adapts the delay for sending.
    pub adaptive_tx: bool,
}

/// Pause frames for the whole port (802.3x).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Whether it is negotiated.
    pub autonegotiation: bool,
    /// Whether the port obeys pause frames.
    pub rx: bool,
    /// Whether the port sends pause frames.
    pub tx: bool,
}

/// A cable or transceiver, without its serial number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PluggableModule {
    /// `QSFP28`.
    pub form: Option<String>,
    /// Its vendor.
    pub vendor: Option<String>,
    /// Its part number.
    pub part: Option<String>,
    /// Its length in metres, of a cable.
    pub length_m: Option<u32>,
    /// Its nominal rate, in Mb/s.
    pub nominal_mbps: Option<u32>,
}

/// The facts of those net devices that have any.
pub(super) fn query(netdevs: &[Interface]) -> Option<BTreeMap<String, Ethtool>> {
    let socket = DriverSocket::open()?;
    let one = |netdev: &Interface| {
        let driver = socket.driver(&netdev.name)?;
        let facts = read(&driver);
        (facts != Ethtool::default()).then(|| (netdev.name.clone(), facts))
    };
    Some(netdevs.iter().filter_map(one).collect())
}

fn read(driver: &Driver<'_>) -> Ethtool {
    let (name, firmware) = driver.identity().unwrap_or_default();
    let link = driver.link_settings();
    Ethtool {
        driver: name,
        firmware: firmware.filter(|version| version != "N/A"),
        speed_mbps: link.as_ref().map(|link| link.speed).filter(|speed| is_known(*speed)),
        autonegotiation: link.as_ref().map(|link| link.autonegotiation),
        modes: link.map(|link| {
            let [supported_mbps, advertised_mbps, partner_mbps] =
                link.modes.map(|mask| modes::speeds(&mask));
            LinkModes { supported_mbps, advertised_mbps, partner_mbps }
        }),
        rings: driver.rings().map(|words| Rings {
            rx_max: words[1],
            tx_max: words[4],
            rx: words[5],
            tx: words[8],
        }),
        coalescing: driver.coalescing().map(|words| Coalescing {
            rx_usecs: words[1],
            tx_usecs: words[5],
            adaptive_rx: words[10] != 0,
            adaptive_tx: words[11] != 0,
        }),
        pause: driver.pause().map(|words| Pause {
            autonegotiation: words[1] != 0,
            rx: words[2] != 0,
            tx: words[3] != 0,
        }),
        module: driver.module_memory().and_then(|memory| eeprom::parse(&memory)),
        statistics: statistics::all(driver).unwrap_or_default().into_iter().collect(),
    }
}

/// A port that is down has no speed: 0, or all ones.
fn is_known(speed: u32) -> bool {
    speed != 0 && speed != u32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_net_devices_have_no_facts() {
        let netdev = |name: &str| Interface { name: name.to_owned(), index: 1, addresses: vec![] };
        let none = netdev("no-such-device");
        let long = netdev("a-name-that-is-longer-than-any");
        assert_eq!(query(&[none, long]), Some(BTreeMap::new()));
        query(&[netdev("lo")]).expect("an answer");
    }
}
