//! The clients that may mount: named hosts and networks, never all hosts.

use std::net::IpAddr;
use std::str::FromStr;

use super::InvalidArgument;

/// Hosts, networks and netgroups, in the syntax of /etc/exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clients(Vec<String>);

impl Clients {
    /// In the order in which they were named.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Those that are networks or addresses, with the length of the network prefix.
    pub(super) fn networks(&self) -> impl Iterator<Item = (&str, IpAddr, u8)> {
        self.0.iter().filter_map(|name| {
            let (address, prefix) = network(name)?.ok()?;
            Some((name.as_str(), address, prefix))
        })
    }
}

impl FromStr for Clients {
    type Err = InvalidArgument;

    fn from_str(text: &str) -> Result<Self, InvalidArgument> {
        let mut names: Vec<String> = Vec::new();
        for name in text.split(',').map(str::trim) {
            check(name)?;
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        if names.len() > MAX_CLIENTS {
            return Err(InvalidArgument(format!(
                "more than {MAX_CLIENTS} clients: name their network"
            )));
        }
        Ok(Clients(names))
    }
}

fn check(name: &str) -> Result<(), InvalidArgument> {
    let invalid = |why: String| Err(InvalidArgument(format!("client {name:?}: {why}")));
    if name.contains(['*', '?', '[']) {
        return invalid(
            "patterns are not accepted: name hosts (a,b) or a network (10.0.0.0/24)".into(),
        );
    }
    match network(name) {
        Some(Ok((_, 0))) => {
            return invalid("this would be all hosts: name hosts or a smaller network".into());
        }
        Some(Ok((address, prefix))) => {
            let first = first(address, prefix);
            if first != address {
                return invalid(format!(
                    "this is not the first address of a network: write {first}/{prefix}, or {address}"
                ));
            }
            return Ok(());
        }
        Some(Err(())) => {
            return invalid("not of the form ADDRESS/PREFIX".into());
        }
        None => {}
    }
    let host = name.strip_prefix('@').unwrap_or(name);
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_');
    if host.is_empty()
        || host.len() > MAX_NAME_BYTES
        || host.starts_with('-')
        || !host.chars().all(plain)
    {
        return invalid("not a host name, address or network (10.0.0.0/24)".into());
    }
    Ok(())
}

/// An address or a network; an address without a prefix has the full length.
fn network(name: &str) -> Option<Result<(IpAddr, u8), ()>> {
    let (address, prefix) = match name.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (name, None),
    };
    let address: IpAddr = match (address.parse(), prefix) {
        (Ok(address), _) => address,
        (Err(_), Some(_)) => return Some(Err(())),
        (Err(_), None) => return None,
    };
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.map_or(Ok(bits), |prefix| prefix.parse().map_err(|_| ()));
    Some(prefix.and_then(|prefix| if prefix <= bits { Ok((address, prefix)) } else { Err(()) }))
}

/// The first address of the network that an address is in.
pub(super) fn first(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            std::net::Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            std::net::Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

const MAX_CLIENTS: usize = 256;
/// The limit of DNS.
const MAX_NAME_BYTES: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_networks_and_netgroups_are_named() {
        let clients: Clients =
            "a, b.example.org,10.0.0.0/24,fd00::/64,10.1.2.3,@nodes,a".parse().expect("fit");
        assert_eq!(
            clients.names(),
            ["a", "b.example.org", "10.0.0.0/24", "fd00::/64", "10.1.2.3", "@nodes"]
        );
        assert_eq!(clients.networks().count(), 3);
    }

    #[test]
    fn patterns_and_all_hosts_are_refused() {
        for text in ["*", "*.example.org", "0.0.0.0/0", "::/0", "a,*", "node[0-9]", "host?"] {
            assert!(text.parse::<Clients>().is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_clients_are_refused() {
        for text in [
            "",
            "a,,b",
            "a(rw)",
            "a b",
            "a\nb",
            "-a",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "10.0.0/24",
            "@",
        ] {
            assert!(text.parse::<Clients>().is_err(), "{text:?}");
        }
        let error = "10.0.0.7/24".parse::<Clients>().expect_err("no network");
        assert!(error.to_string().contains("write 10.0.0.0/24, or 10.0.0.7"), "{error}");
    }
}
