//! Who may mount: named hosts and networks, never everybody.

use std::net::IpAddr;
use std::str::FromStr;

use super::InvalidArgument;

/// Hosts, networks and netgroups, each as /etc/exports has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clients(Vec<String>);

impl Clients {
    /// In the order in which they were named.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Those that are networks or addresses, with how many bits name the network.
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
        if names.len() > MAX {
            return Err(InvalidArgument(format!("more than {MAX} clients: name their network")));
        }
        Ok(Clients(names))
    }
}

fn check(name: &str) -> Result<(), InvalidArgument> {
    let unfit = |why: String| Err(InvalidArgument(format!("client {name:?}: {why}")));
    if name.contains(['*', '?', '[']) {
        return unfit(
            "everybody who fits could mount it: name hosts (a,b) or a network (10.0.0.0/24)".into(),
        );
    }
    match network(name) {
        Some(Ok((_, 0))) => {
            return unfit("that is everybody: name hosts or a smaller network".into());
        }
        Some(Ok((address, prefix))) => {
            let first = first(address, prefix);
            if first != address {
                return unfit(format!(
                    "no network begins there: say {first}/{prefix}, or {address} alone"
                ));
            }
            return Ok(());
        }
        Some(Err(())) => {
            return unfit("after an address and / comes the number of the network's bits".into());
        }
        None => {}
    }
    let host = name.strip_prefix('@').unwrap_or(name);
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_');
    if host.is_empty() || host.len() > LONGEST || host.starts_with('-') || !host.chars().all(plain)
    {
        return unfit("no name of a host, address or network (10.0.0.0/24)".into());
    }
    Ok(())
}

/// An address or a network; an address that stands alone has all its bits.
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

const MAX: usize = 256;
/// Of a name in DNS.
const LONGEST: usize = 253;

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
    fn everybody_is_refused_however_it_is_said() {
        for text in ["*", "*.example.org", "0.0.0.0/0", "::/0", "a,*", "node[0-9]", "host?"] {
            assert!(text.parse::<Clients>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_would_break_out_of_the_line_is_refused() {
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
        assert!(error.to_string().contains("say 10.0.0.0/24, or 10.0.0.7 alone"), "{error}");
    }
}
