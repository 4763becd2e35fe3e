//! Samples of net device statistics.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::counters::{Counter, CounterSource};
use crate::queries::{EthtoolSocket, StatisticNames};
use crate::{Reading, Tree};

/// Samples the statistics of net devices. Their names are queried every minute, their values each time.
#[derive(Debug, Default)]
pub struct NicSampler {
    /// Opened when first needed: only the running machine needs one.
    socket: Option<EthtoolSocket>,
    names: HashMap<String, CachedNames>,
}

#[derive(Debug)]
struct CachedNames {
    names: StatisticNames,
    until: Instant,
}

impl NicSampler {
    /// A watch of any tree.
    pub fn new() -> NicSampler {
        NicSampler::default()
    }

    /// The statistics of a net device's driver that [`crate::counters::statistic`] knows, by the driver's names; empty if
    /// the net device does not exist or its driver has none.
    pub fn sample(&mut self, tree: &Tree, netdev: &str, now: Instant) -> Vec<Counter> {
        let found =
            if tree.is_live() { self.query(netdev, now) } else { from_snapshot(tree, netdev) };
        let counter = |(name, value)| Counter {
            name,
            source: CounterSource::Ethtool,
            value: Reading::Value(value),
        };
        found.unwrap_or_default().into_iter().map(counter).collect()
    }

    fn query(&mut self, netdev: &str, now: Instant) -> Option<Vec<(String, u64)>> {
        if self.socket.is_none() {
            self.socket = EthtoolSocket::open();
        }
        let socket = self.socket.as_ref()?;
        if let Some(known) = self.names.get(netdev).filter(|known| now < known.until)
            && let Some(values) = socket.values(netdev, &known.names)
        {
            return Some(values);
        }
        // No names yet, or they are outdated.
        self.names.remove(netdev);
        let names = socket.names(netdev)?;
        let values = socket.values(netdev, &names);
        if self.names.len() < MAX_NETDEVS {
            let until = now + NAMES_INTERVAL;
            self.names.insert(netdev.to_owned(), CachedNames { names, until });
        }
        values
    }
}

fn from_snapshot(tree: &Tree, netdev: &str) -> Option<Vec<(String, u64)>> {
    let ethtool = tree.query_results().ethtool()?.get(netdev)?;
    Some(ethtool.statistics.iter().map(|(name, value)| (name.clone(), *value)).collect())
}

/// When flow control changes, the same number of statistics may have other names: for the whole port or for one
/// priority.
const NAMES_INTERVAL: Duration = Duration::from_secs(60);
/// Net devices may be created repeatedly; there are no more ports than this.
const MAX_NETDEVS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_have_their_statistics_and_missing_net_devices_none() {
        let document = serde_json::json!({
            "format": "wirelane snapshot 1",
            "answers": {"ethtool": {"eth0": {"statistics": {"rx_prio3_pause": 7}}}},
        });
        let tree = Tree::parse(document.to_string().as_bytes()).expect("a tree");
        let mut watch = NicSampler::new();
        let now = Instant::now();
        let found = watch.sample(&tree, "eth0", now);
        assert_eq!(
            (found.len(), found[0].name.as_str(), found[0].number()),
            (1, "rx_prio3_pause", Some(7))
        );
        assert!(watch.sample(&tree, "eth1", now).is_empty());
        assert!(watch.sample(&Tree::live(None), "no-such-device", now).is_empty());
        assert!(
            watch.sample(&Tree::live(None), "lo", now).is_empty(),
            "it has no known statistics"
        );
    }
}
