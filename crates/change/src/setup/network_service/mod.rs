//! The service that sets addresses when this machine starts: NetworkManager, systemd-networkd or ifupdown.

mod ifupdown;
mod network_manager;
mod networkd;

use node::Tree;

use crate::Change;

/// A net device with the addresses that it shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    /// Of a virtual LAN: what it is on, and its number.
    pub(super) parent: Option<String>,
    pub(super) vlan: Option<u16>,
    /// Of IPoIB: its mode.
    pub(super) ipoib: Option<String>,
    pub(super) is_bond: bool,
    pub(super) addresses: Vec<String>,
}

/// Who sets addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NetworkService {
    Networkd,
    NetworkManager,
    Ifupdown,
}

const ALL: [NetworkService; 3] =
    [NetworkService::Networkd, NetworkService::NetworkManager, NetworkService::Ifupdown];

impl NetworkService {
    /// The one that this machine has; or why that is not certain.
    pub(super) fn of(tree: &Tree) -> Result<NetworkService, String> {
        if tree.list("/etc/netplan").iter().any(|name| name.ends_with(".yaml")) {
            return Err("netplan makes the settings here from files of its own".to_owned());
        }
        let found: Vec<NetworkService> = ALL
            .into_iter()
            .filter(|service| service.signs().iter().any(|sign| tree.exists(sign)))
            .collect();
        match found.as_slice() {
            [NetworkService::Ifupdown] if !ifupdown::reads_folder(tree) => {
                Err("/etc/network/interfaces does not read the files of interfaces.d".to_owned())
            }
            [service] => Ok(*service),
            [] => Err("who sets addresses at a start is not known here".to_owned()),
            many => {
                let names: Vec<&str> = many.iter().map(|service| service.name()).collect();
                Err(format!("{} are both in use here", names.join(" and ")))
            }
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            NetworkService::Networkd => "systemd-networkd",
            NetworkService::NetworkManager => "NetworkManager",
            NetworkService::Ifupdown => "ifupdown",
        }
    }

    /// That it runs, or is started with the machine.
    fn signs(self) -> [&'static str; 2] {
        match self {
            NetworkService::Networkd => [
                "/run/systemd/netif/state",
                "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service",
            ],
            NetworkService::NetworkManager => [
                "/run/NetworkManager/devices",
                "/etc/systemd/system/multi-user.target.wants/NetworkManager.service",
            ],
            NetworkService::Ifupdown => [
                "/run/network/ifstate",
                "/etc/systemd/system/multi-user.target.wants/networking.service",
            ],
        }
    }

    /// Why the device is somebody else's to set, if it is.
    pub(super) fn taken(self, tree: &Tree, interface: &Interface) -> Option<String> {
        if interface.is_bond {
            return Some("a bond is made by settings of its own".to_owned());
        }
        let names = [Some(&interface.name), interface.parent.as_ref()];
        names.into_iter().flatten().find_map(|netdev| match self {
            NetworkService::Networkd => networkd::taken(tree, netdev),
            NetworkService::NetworkManager => network_manager::taken(tree, netdev),
            NetworkService::Ifupdown => ifupdown::taken(tree, netdev),
        })
    }

    /// The files that keep their addresses.
    pub(super) fn files(self, interfaces: &[Interface]) -> Vec<Change> {
        match self {
            NetworkService::Networkd => networkd::files(interfaces),
            NetworkService::NetworkManager => {
                interfaces.iter().map(network_manager::file).collect()
            }
            NetworkService::Ifupdown => interfaces.iter().map(ifupdown::file).collect(),
        }
    }

    /// The commands that make it read them before the next start.
    pub(super) fn read_now(self, interfaces: &[Interface]) -> Vec<String> {
        let each = interfaces.iter();
        match self {
            NetworkService::Networkd => vec!["networkctl reload".to_owned()],
            NetworkService::NetworkManager => each
                .flat_map(|interface| {
                    let load =
                        format!("nmcli connection load {}", network_manager::path(interface));
                    [load, format!("nmcli connection up wirelane-{}", interface.name)]
                })
                .collect(),
            NetworkService::Ifupdown => {
                each.map(|interface| format!("ifup --force {}", interface.name)).collect()
            }
        }
    }

    /// The ways to keep it by hand, where it is not certain which is right.
    pub(super) fn all_ways(interface: &Interface) -> Vec<String> {
        let name = &interface.name;
        let each = |before: &str, between: &str| {
            let words = interface.addresses.iter().map(|address| format!("{before}{address}"));
            words.collect::<Vec<_>>().join(between)
        };
        // A dot begins the next part of a path there.
        let key = name.replace('.', "\\.");
        let (nmcli, netplan) = match (&interface.parent, interface.vlan, &interface.ipoib) {
            (Some(parent), Some(id), _) => (
                format!("vlan dev {parent} id {id}"),
                format!(
                    "netplan set vlans.{key}='{{id: {id}, link: {parent}, addresses: [{}]}}'",
                    each("", ", ")
                ),
            ),
            (_, _, ipoib) => (
                if ipoib.is_some() { "infiniband" } else { "ethernet" }.to_owned(),
                format!("netplan set ethernets.{key}.addresses='[{}]'", each("", ", ")),
            ),
        };
        let typed = interface.addresses.iter().map(|address| {
            let family = if address.contains(':') { "ip6" } else { "ip4" };
            format!(" {family} {address}")
        });
        let typed: String = typed.collect();
        vec![
            format!("nmcli connection add type {nmcli} ifname {name}{typed}    # NetworkManager"),
            format!("{netplan}    # netplan"),
            format!(
                "{} in a stanza `iface {name}` of /etc/network/interfaces    # ifupdown",
                each("address ", ", each ")
            ),
            format!(
                "{} under [Network] in /etc/systemd/network/10-{name}.network    # systemd-networkd",
                each("Address=", " and ")
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_knows_what_kind_of_device_it_is() {
        let plain = Interface {
            name: "eth0".to_owned(),
            parent: None,
            vlan: None,
            ipoib: None,
            is_bond: false,
            addresses: vec!["10.0.0.1/24".to_owned(), "fd00::1/64".to_owned()],
        };
        let [nmcli, netplan, ifupdown, networkd] = &NetworkService::all_ways(&plain)[..] else {
            panic!()
        };
        assert!(nmcli.contains("type ethernet ifname eth0 ip4 10.0.0.1/24 ip6 fd00::1/64"));
        assert!(netplan.contains("ethernets.eth0.addresses='[10.0.0.1/24, fd00::1/64]'"));
        assert!(ifupdown.starts_with("address 10.0.0.1/24, each address fd00::1/64 in a stanza"));
        assert!(networkd.starts_with("Address=10.0.0.1/24 and Address=fd00::1/64 under"));
        let ipoib = Interface {
            name: "ib0".to_owned(),
            ipoib: Some("datagram".to_owned()),
            ..plain.clone()
        };
        assert!(NetworkService::all_ways(&ipoib)[0].contains("type infiniband ifname ib0 "));
        let (name, parent) = ("eth0.7".to_owned(), Some("eth0".to_owned()));
        let vlan = Interface { name, parent, vlan: Some(7), ..plain };
        let ways = NetworkService::all_ways(&vlan);
        assert!(ways[0].contains("type vlan dev eth0 id 7 ifname eth0.7 "), "{}", ways[0]);
        assert!(ways[1].contains("vlans.eth0\\.7='{id: 7, link: eth0, addresses: "), "{}", ways[1]);
    }
}
