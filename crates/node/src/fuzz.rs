//! Fuzz targets: everything that parses external data. Each takes any bytes, and panics only on
//! a bug.

use crate::{Node, Tree};

/// Netlink messages.
pub fn netlink(bytes: &[u8]) {
    crate::queries::fuzz_netlink(bytes);
}

/// The EEPROM of a cable.
pub fn cable(bytes: &[u8]) {
    crate::queries::fuzz_cable(bytes);
}

/// A snapshot and all its facts; a second snapshot of it gives the same facts.
pub fn snapshot(bytes: &[u8]) {
    let Ok(tree) = Tree::parse(bytes) else { return };
    let json = |tree: &Tree| serde_json::to_string(&Node::read(tree)).expect("facts are JSON");
    let first = json(&tree);
    let copy = tree.snapshot(&crate::About::default()).expect("a snapshot is JSON");
    let again = Tree::parse(copy.as_bytes()).expect("a snapshot is parsed");
    assert_eq!(json(&again), first);
}

/// The same, with the bytes as contents and names of files, so that the fuzzer need not produce JSON.
pub fn tree(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let (mut files, mut links) = (serde_json::Map::new(), serde_json::Map::new());
    while let (Some(path), Some(contents)) = (lines.next(), lines.next()) {
        let map = if path.ends_with('@') { &mut links } else { &mut files };
        map.insert(path.trim_end_matches('@').to_owned(), contents.into());
    }
    let document =
        serde_json::json!({"format": "wirelane snapshot 1", "files": files, "links": links});
    snapshot(document.to_string().as_bytes());
}

/// Texts of the kernel and of programs.
pub fn texts(bytes: &[u8]) {
    crate::queries::fuzz_texts(bytes);
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Some(rate) = crate::Rate::parse(text) {
        assert!(rate.to_string().contains("Gb/s"));
    }
    if let Some(address) = crate::Address::parse(text) {
        assert_eq!(crate::Address::parse(&address.to_string()), Some(address));
    }
    crate::sampling::fuzz_line(text);
    crate::counters::statistic(text);
    crate::Guid::parse(text);
    crate::GidType::parse(text);
    crate::PortState::parse(text);
    crate::PhysState::parse(text);
    crate::LinkLayer::parse(text);
}

#[cfg(test)]
mod tests {
    /// A short run; `cargo xtask fuzz` tries more.
    #[test]
    fn random_bytes_do_not_panic() {
        let mut state = 1u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..300 {
            let length = random() as usize % 400;
            let bytes: Vec<u8> = (0..length).map(|_| random() as u8).collect();
            for target in [super::netlink, super::cable, super::snapshot, super::tree, super::texts]
            {
                target(&bytes);
            }
        }
    }

    #[test]
    fn a_tree_with_odd_contents_is_the_same_from_its_snapshot() {
        super::tree(
            b"/sys/class/infiniband/a\xff/ports/1/state\n4: ACTIVE\n\
              /sys/class/infiniband/b@\n/sys/devices/x/infiniband/b\n\
              /sys/devices/x/infiniband/b/ports/1/gids/0\nzz\n\
              /sys/class/net/e@\n/sys/class/net/e\n/proc/self/status\nUid: 1\n",
        );
    }
}
