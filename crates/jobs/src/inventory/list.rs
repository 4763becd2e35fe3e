//! A list of hosts: `a:4,b:4`, `gpu[001-032]:8`.

use std::net::{IpAddr, Ipv6Addr};

use super::range::{expand, words};
use super::{Host, Inventory, InventoryError, number, within_limit};

impl Inventory {
    /// Parses hosts separated by commas, each with optional slots after a colon.
    pub fn from_list(text: &str) -> Result<Self, InventoryError> {
        let mut hosts = Vec::new();
        for word in words(text) {
            hosts.extend(named(word.trim())?);
            within_limit(hosts.len())?;
        }
        Inventory::new(hosts)
    }
}

/// The hosts of one list item.
pub(super) fn named(word: &str) -> Result<Vec<Host>, InventoryError> {
    let (name, slots) = parts(word)?;
    let names = match address(name) {
        Some(address) => vec![address],
        None => expand(name)?,
    };
    Ok(names.into_iter().map(|name| Host { slots, ..Host::named(name) }).collect())
}

/// The name, and the number after its colon. An IPv6 address contains colons itself.
fn parts(word: &str) -> Result<(&str, Option<u32>), InventoryError> {
    if word.parse::<IpAddr>().is_ok() {
        return Ok((word, None));
    }
    let Some((name, slots)) = word.rsplit_once(':').filter(|(_, slots)| !slots.contains(']'))
    else {
        return Ok((word, None));
    };
    match number(slots) {
        Some(slots) => Ok((name, Some(slots))),
        None => {
            Err(InventoryError::new(format!("has {word:?}; write HOST:SLOTS, such as node1:4")))
        }
    }
}

/// An address, or one in brackets, as needed if slots follow.
fn address(name: &str) -> Option<String> {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    if let Some(bare) = bare {
        return bare.parse::<Ipv6Addr>().ok().map(|address| address.to_string());
    }
    name.parse::<IpAddr>().ok().map(|address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let hosts = Inventory::from_list(text).expect("hosts").hosts;
        let one = |host: &Host| match host.slots {
            Some(slots) => format!("{}={slots}", host.name),
            None => host.name.clone(),
        };
        hosts.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn common_lists_are_parsed() {
        assert_eq!(read("a:4,b:4"), "a=4 b=4");
        assert_eq!(read("a, me@b.example , 10.0.0.7:2"), "a me@b.example 10.0.0.7=2");
        assert_eq!(read("gpu[001-002,040]:8,cpu1"), "gpu001=8 gpu002=8 gpu040=8 cpu1");
        assert_eq!(read("fd00::1,[fd00::2]:4,[fd00::3]"), "fd00::1 fd00::2=4 fd00::3");
        assert_eq!(read("./one.json,/two.json"), "./one.json /two.json");
    }

    #[test]
    fn invalid_lists_are_refused() {
        for invalid in ["", ",", "a,,b", "a:", "a:b", "a:-1", "a:+1", "a:0", "a:5000", "a,a", "a b"]
        {
            assert!(Inventory::from_list(invalid).is_err(), "{invalid:?}");
        }
        assert!(Inventory::from_list("a:99999999999").is_err());
        assert!(Inventory::from_list("n[1-3],n[3-5]").is_err());
        assert!(Inventory::from_list(&"a,".repeat(1 << 20)).is_err());
    }
}
