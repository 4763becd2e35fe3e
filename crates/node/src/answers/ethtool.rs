//! What ethtool reports of a net device.

mod driver;
pub(super) mod eeprom;
mod modes;
mod statistics;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Interface;
use driver::{Driver, DriverSocket};
pub(crate) use statistics::{Asked, Names};

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
    /// What the driver counts, by its own names: those that [`crate::counters::statistic`] knows.
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

/// Of these net devices, those that tell something.
pub(super) fn ask(netdevs: &[Interface]) -> Option<BTreeMap<String, Ethtool>> {
    let socket = DriverSocket::open()?;
    let one = |netdev: &Interface| {
        let driver = socket.driver(&netdev.name)?;
        let told = of(&driver);
        (told != Ethtool::default()).then(|| (netdev.name.clone(), told))
    };
    Some(netdevs.iter().filter_map(one).collect())
}

fn of(driver: &Driver<'_>) -> Ethtool {
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
    fn asking_what_is_not_there_or_tells_nothing_is_no_answer() {
        let netdev = |name: &str| Interface { name: name.to_owned(), index: 1, addresses: vec![] };
        let none = netdev("no-such-device");
        let long = netdev("a-name-that-is-longer-than-any");
        assert_eq!(ask(&[none, long]), Some(BTreeMap::new()));
        ask(&[netdev("lo")]).expect("asked");
    }
}
