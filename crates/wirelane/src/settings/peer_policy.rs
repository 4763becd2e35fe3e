//! A policy for certain peers, as in settings: `10.1.0.0/16=require`.

use std::net::IpAddr;

use fabric::link::{PeerPolicy, Policy};

/// Parses a policy; `None` if it is invalid.
pub(super) fn read(text: &str) -> Option<PeerPolicy> {
    let (peers, policy) = text.split_once('=')?;
    let policy = Policy::ALL.into_iter().find(|known| known.name() == policy)?;
    let (address, prefix) = match peers.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (peers, None),
    };
    let network: IpAddr = address.parse().ok()?;
    let max = if network.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.map_or(Some(max), |prefix| prefix.parse().ok())?;
    (prefix <= max).then_some(PeerPolicy { network, prefix, policy })
}

/// Formats a policy, as [`read`] parses it.
pub(super) fn format(policy: &PeerPolicy) -> String {
    format!("{}/{}={}", policy.network, policy.prefix, policy.policy.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_policies_are_parsed_again() {
        for (text, formatted) in [
            ("10.1.2.3=off", "10.1.2.3/32=off"),
            ("10.1.0.0/16=require", "10.1.0.0/16=require"),
            ("2001:db8::/32=prefer", "2001:db8::/32=prefer"),
            ("::1=off", "::1/128=off"),
        ] {
            let policy = read(text).expect(text);
            assert_eq!(format(&policy), formatted);
            assert_eq!(read(formatted), Some(policy));
        }
    }

    #[test]
    fn invalid_text_is_none() {
        for text in
            ["", "=off", "10.1.2.3", "10.1.2.3=on", "10.1.2.3/33=off", "host=off", "::1/129=off"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
