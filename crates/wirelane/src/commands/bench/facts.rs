//! Facts about this host: its name, what its ports should reach, and its counters.

use std::collections::BTreeMap;
use std::sync::Arc;

use doctor::CheckInput;
use doctor::evaluation::HostFacts;
use measure::{CounterReader, KERNEL};
use metric::Kind;
use node::counters::{Counter, CounterSource};
use node::{Node, Tree};

/// Reads this host. Reads many files: call it once per run.
pub(super) fn host_facts() -> HostFacts {
    let tree = Tree::live(None);
    let node = Node::read(&tree);
    HostFacts::new(&CheckInput::new(&node, &tree))
}

/// The name of this host; reads nothing else.
pub(super) fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// Reads the counters of the named ports (`mlx5_0 port 1`), and for [`KERNEL`] those of TCP.
pub(super) fn counters() -> CounterReader {
    Arc::new(|places: &[String]| {
        let tree = Tree::live(None);
        let mut found = BTreeMap::new();
        for place in places {
            match place.split_once(" port ") {
                Some((device, port)) => port_counters(&tree, place, device, port, &mut found),
                None if place == KERNEL => tcp_counters(&tree, &mut found),
                None => {}
            }
        }
        found
    })
}

fn port_counters(
    tree: &Tree,
    place: &str,
    device: &str,
    port: &str,
    found: &mut BTreeMap<String, u64>,
) {
    // If several files have a metric, the first one is used: `counters/` comes before the driver's own.
    for source in [CounterSource::Counters, CounterSource::CountersExt, CounterSource::HwCounters] {
        let path = format!("/sys/class/infiniband/{device}/ports/{port}/{}", source.name());
        for name in tree.list(&path) {
            let value = tree.number::<u64>(&format!("{path}/{name}"));
            let counter = Counter { name, source, value };
            let (Some(known), Some(value)) = (counter.known(), counter.value.value()) else {
                continue;
            };
            if known.row.kind() == Kind::Counter {
                let key = format!("{place} {}", known.row.name());
                found.entry(key).or_insert(value.saturating_mul(known.scale));
            }
        }
    }
}

/// Counters of the whole host: the kernel does not count them per connection.
fn tcp_counters(tree: &Tree, found: &mut BTreeMap<String, u64>) {
    let Some(text) = tree.text("/proc/net/snmp").into_value() else { return };
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return };
    let pairs = names.split_whitespace().zip(values.split_whitespace());
    for (name, value) in pairs {
        let metric = match name {
            "RetransSegs" => "retransmit_segments_total",
            "OutSegs" => "transmit_tcp_segments_total",
            _ => continue,
        };
        if let Ok(value) = value.parse() {
            found.insert(format!("{KERNEL} {metric}"), value);
        }
    }
}
