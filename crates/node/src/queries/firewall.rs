//! The firewall's rules, from `nft` or `iptables-save`.

mod iptables;
mod nft;

use serde::{Deserialize, Serialize};

use super::program;

/// The relevant rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Firewall {
    /// The program that was run: `nft` or `iptables-save`.
    pub program: String,
    /// Whether it succeeded; it needs root.
    pub readable: bool,
    /// Whether incoming packets are dropped unless a rule accepts them.
    pub drops_by_default: Option<bool>,
    /// UDP ports that a rule accepts, as ranges.
    pub udp_let_in: Vec<(u16, u16)>,
    /// TCP ports that a rule accepts, as ranges.
    pub tcp_let_in: Vec<(u16, u16)>,
}

/// Most systems use nft; if its tables are empty, iptables may be in use.
pub(super) fn query() -> Option<Firewall> {
    let nft = program::run("nft", &["-j", "list", "ruleset"]).map(|output| {
        let rules = output.succeeded.then(|| nft::parse(&output.text)).flatten();
        Firewall::new("nft", rules)
    });
    if nft.as_ref().is_some_and(|nft| !nft.readable || nft.has_rules()) {
        return nft;
    }
    let iptables = program::run("iptables-save", &[]).map(|output| {
        let rules = output.succeeded.then(|| iptables::parse(&output.text));
        Firewall::new("iptables-save", rules)
    });
    iptables.filter(|iptables| nft.is_none() || iptables.has_rules()).or(nft)
}

impl Firewall {
    fn new(program: &str, rules: Option<Rules>) -> Self {
        let program = program.to_owned();
        match rules {
            None => Firewall { program, ..Firewall::default() },
            Some(rules) => Firewall {
                program,
                readable: true,
                drops_by_default: Some(rules.drops_by_default),
                udp_let_in: rules.udp,
                tcp_let_in: rules.tcp,
            },
        }
    }

    fn has_rules(&self) -> bool {
        self.drops_by_default == Some(true)
            || !self.udp_let_in.is_empty()
            || !self.tcp_let_in.is_empty()
    }
}

/// The relevant parts of all rules.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rules {
    drops_by_default: bool,
    udp: Vec<(u16, u16)>,
    tcp: Vec<(u16, u16)>,
}

impl Rules {
    fn accept(&mut self, protocol: &str, ports: Vec<(u16, u16)>) {
        let list = match protocol {
            "udp" => &mut self.udp,
            "tcp" => &mut self.tcp,
            _ => return,
        };
        list.extend(ports.into_iter().take(MAX_PORTS.saturating_sub(list.len())));
    }
}

/// Parses any text.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz(text: &str) {
    nft::parse(text);
    iptables::parse(text);
}

const MAX_PORTS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nft_drops_by_default_and_accepts_roce() {
        let text = r#"{"nftables": [{"metainfo": {}},
            {"chain": {"family": "inet", "table": "filter", "name": "input", "hook": "input", "policy": "drop"}},
            {"rule": {"family": "inet", "table": "filter", "chain": "input", "expr": [
                {"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 4791}},
                {"accept": null}]}},
            {"rule": {"family": "inet", "table": "filter", "chain": "allow", "expr": [
                {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}},
                           "right": {"set": [22, {"range": [18515, 18525]}]}}},
                {"accept": null}]}}]}"#;
        let rules = nft::parse(text).expect("rules");
        assert!(rules.drops_by_default);
        assert_eq!((rules.udp, rules.tcp), (vec![(4791, 4791)], vec![(22, 22), (18515, 18525)]));
        assert_eq!(nft::parse("{}"), None);
    }

    #[test]
    fn a_chain_that_ends_with_reject_drops_by_default() {
        let text = r#"{"nftables": [
            {"chain": {"family": "inet", "table": "firewalld", "name": "INPUT", "hook": "input", "policy": "accept"}},
            {"rule": {"family": "inet", "table": "firewalld", "chain": "INPUT", "expr": [
                {"reject": {"type": "icmpx", "expr": "admin-prohibited"}}]}}]}"#;
        assert!(nft::parse(text).expect("rules").drops_by_default);
    }

    #[test]
    fn iptables_rules_are_those_of_the_filter_table() {
        let text = "*nat\n:INPUT DROP [0:0]\nCOMMIT\n*filter\n:INPUT ACCEPT [0:0]\n\
                    -A INPUT -p udp -m udp --dport 4791 -j ACCEPT\n\
                    -A INPUT -p tcp -m multiport --dports 22,18515:18525 -j ACCEPT\n\
                    -A INPUT ! -s 10.0.0.0/8 -p tcp -m tcp --dport 80 -j ACCEPT\nCOMMIT\n";
        let rules = iptables::parse(text);
        assert!(!rules.drops_by_default);
        assert_eq!((rules.udp, rules.tcp), (vec![(4791, 4791)], vec![(22, 22), (18515, 18525)]));
        assert!(iptables::parse("*filter\n-A INPUT -j DROP\n").drops_by_default);
    }
}
