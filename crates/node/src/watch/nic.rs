//! Statistics of net devices, read anew each time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::answers::{AskedEthtool, EthtoolNames};
use crate::counters::{Counter, Folder};
use crate::{Seen, Tree};

/// Watches statistics of net devices. Their names are asked for now and then, their values each time.
#[derive(Debug, Default)]
pub struct NicWatch {
    /// Opened when it is first needed: what is no running machine needs none.
    socket: Option<AskedEthtool>,
    names: HashMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    names: EthtoolNames,
    until: Instant,
}

impl NicWatch {
    /// Of this machine, or of any tree.
    pub fn new() -> NicWatch {
        NicWatch::default()
    }

    /// What a net device's driver counts and [`crate::counters::statistic`] knows, by the driver's names. Of a snapshot, as it
    /// was then; nothing, where the net device is gone or its driver tells nothing.
    pub fn look(&mut self, tree: &Tree, netdev: &str, now: Instant) -> Vec<Counter> {
        let found = if tree.is_live() { self.ask(netdev, now) } else { kept(tree, netdev) };
        let counter =
            |(name, value)| Counter { name, folder: Folder::Ethtool, value: Seen::Value(value) };
        found.unwrap_or_default().into_iter().map(counter).collect()
    }

    fn ask(&mut self, netdev: &str, now: Instant) -> Option<Vec<(String, u64)>> {
        if self.socket.is_none() {
            self.socket = AskedEthtool::open();
        }
        let socket = self.socket.as_ref()?;
        if let Some(known) = self.names.get(netdev).filter(|known| now < known.until)
            && let Some(values) = socket.values(netdev, &known.names)
        {
            return Some(values);
        }
        // There are none yet, they are old, or there are others now.
        self.names.remove(netdev);
        let names = socket.names(netdev)?;
        let values = socket.values(netdev, &names);
        if self.names.len() < MAX_NETDEVS {
            self.names.insert(netdev.to_owned(), Known { names, until: now + NAMES_LAST });
        }
        values
    }
}

fn kept(tree: &Tree, netdev: &str) -> Option<Vec<(String, u64)>> {
    let ethtool = tree.answers().ethtool()?.get(netdev)?;
    Some(ethtool.statistics.iter().map(|(name, value)| (name.clone(), *value)).collect())
}

/// As many names with another meaning can come when flow control is changed: as many for the whole port as for one
/// priority.
const NAMES_LAST: Duration = Duration::from_secs(60);
/// Net devices come and go; ports do not become more than this.
const MAX_NETDEVS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_tells_what_it_was_given_and_a_net_device_that_is_not_there_nothing() {
        let document = serde_json::json!({
            "format": "wirelane snapshot 1",
            "answers": {"ethtool": {"eth0": {"statistics": {"rx_prio3_pause": 7}}}},
        });
        let tree = Tree::parse(document.to_string().as_bytes()).expect("a tree");
        let mut watch = NicWatch::new();
        let now = Instant::now();
        let found = watch.look(&tree, "eth0", now);
        assert_eq!(
            (found.len(), found[0].name.as_str(), found[0].number()),
            (1, "rx_prio3_pause", Some(7))
        );
        assert!(watch.look(&tree, "eth1", now).is_empty());
        assert!(watch.look(&Tree::live(None), "no-such-device", now).is_empty());
        assert!(watch.look(&Tree::live(None), "lo", now).is_empty(), "it counts nothing of ours");
    }
}
