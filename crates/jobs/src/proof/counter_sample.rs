//! Counters of a host at one moment.

use std::collections::BTreeMap;

use node::Seen;
use node::counters::{Counter, Folder};

/// One look at a host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Look {
    /// By device and port.
    pub(super) ports: BTreeMap<(String, u32), Vec<Counter>>,
    /// By net device.
    pub(super) netdevs: BTreeMap<String, NetCounts>,
}

/// What a net device has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NetCounts {
    pub(super) sent: Option<u64>,
    pub(super) received: Option<u64>,
    pub(super) packets: u64,
}

impl Look {
    /// Prints every counter as `PATH:VALUE`. What a driver refuses to tell is left out, and what is not there too. Few greps
    /// for all of them, and more than one only where a card has so many functions that their paths are too long for one.
    pub const COMMAND: &str = "printf '%s\\0' /sys/class/infiniband/*/ports/*/counters/* \
                               /sys/class/infiniband/*/ports/*/counters_ext/* \
                               /sys/class/infiniband/*/ports/*/hw_counters/* \
                               /sys/class/net/*/statistics/[rt]x_bytes \
                               /sys/class/net/*/statistics/[rt]x_packets \
                               | xargs -0 grep -sH .";

    /// Reads what [`COMMAND`](Self::COMMAND) printed; lines that are none of it are left out.
    pub fn parse(text: &str) -> Look {
        let mut look = Look::default();
        for line in text.lines().take(MAX_LINES) {
            if let Some((path, value)) = line.rsplit_once(':')
                && let Ok(value) = value.trim().parse()
            {
                look.put(path, value);
            }
        }
        look
    }

    fn put(&mut self, path: &str, value: u64) {
        let Some(path) = path.strip_prefix("/sys/class/") else { return };
        match path.split('/').collect::<Vec<_>>().as_slice() {
            ["infiniband", device, "ports", port, folder, name] => {
                let (Ok(port), Some(folder)) = (port.parse(), folder_of(folder)) else { return };
                let counter =
                    Counter { name: (*name).to_owned(), folder, value: Seen::Value(value) };
                self.ports.entry(((*device).to_owned(), port)).or_default().push(counter);
            }
            ["net", netdev, "statistics", name] => {
                let counts = self.netdevs.entry((*netdev).to_owned()).or_default();
                match *name {
                    "tx_bytes" => counts.sent = Some(value),
                    "rx_bytes" => counts.received = Some(value),
                    _ => counts.packets = counts.packets.saturating_add(value),
                }
            }
            _ => {}
        }
    }
}

fn folder_of(name: &str) -> Option<Folder> {
    Folder::OF_PORTS.into_iter().find(|folder| folder.name() == name)
}

/// A thousand virtual functions with a hundred counters each.
const MAX_LINES: usize = 200_000;
