//! A sample of a host's counters.

use std::collections::BTreeMap;

use node::Reading;
use node::counters::{Counter, CounterSource};

/// The counters of a host at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CounterSample {
    /// By device and port.
    pub(super) ports: BTreeMap<(String, u32), Vec<Counter>>,
    /// By net device.
    pub(super) netdevs: BTreeMap<String, NetCounts>,
}

/// The counters of a net device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NetCounts {
    pub(super) sent: Option<u64>,
    pub(super) received: Option<u64>,
    pub(super) packets: u64,
}

impl CounterSample {
    /// A command that prints every counter as `PATH:VALUE`, and skips unreadable and missing ones. One grep
    /// reads all of them; xargs starts more only where the paths are too long for one.
    pub const COMMAND: &str = "printf '%s\\0' /sys/class/infiniband/*/ports/*/counters/* \
                               /sys/class/infiniband/*/ports/*/counters_ext/* \
                               /sys/class/infiniband/*/ports/*/hw_counters/* \
                               /sys/class/net/*/statistics/[rt]x_bytes \
                               /sys/class/net/*/statistics/[rt]x_packets \
                               | xargs -0 grep -sH .";

    /// Parses the output of [`COMMAND`](Self::COMMAND); other lines are ignored.
    pub fn parse(text: &str) -> CounterSample {
        let mut sample = CounterSample::default();
        for line in text.lines().take(MAX_LINES) {
            if let Some((path, value)) = line.rsplit_once(':')
                && let Ok(value) = value.trim().parse()
            {
                sample.put(path, value);
            }
        }
        sample
    }

    fn put(&mut self, path: &str, value: u64) {
        let Some(path) = path.strip_prefix("/sys/class/") else { return };
        match path.split('/').collect::<Vec<_>>().as_slice() {
            ["infiniband", device, "ports", port, folder, name] => {
                let (Ok(port), Some(source)) = (port.parse(), source_of(folder)) else { return };
                let counter =
                    Counter { name: (*name).to_owned(), source, value: Reading::Value(value) };
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

fn source_of(name: &str) -> Option<CounterSource> {
    CounterSource::OF_PORTS.into_iter().find(|source| source.name() == name)
}

/// A thousand virtual functions with a hundred counters each.
const MAX_LINES: usize = 200_000;
