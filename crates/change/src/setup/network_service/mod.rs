//! The service that sets addresses when this machine starts: NetworkManager, systemd-networkd or ifupdown.

mod ifupdown;
mod network_manager;
mod networkd;

use node::Tree;

use crate::Change;

/// A net device with its wanted addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    /// Of a VLAN: its parent device, and its ID.
    pub(super) parent: Option<String>,
    pub(super) vlan: Option<u16>,
    /// Of IPoIB: the mode.
    pub(super) ipoib: Option<String>,
    pub(super) is_bond: bool,
    pub(super) addresses: Vec<String>,
}

/// A service that sets addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NetworkService {
    Networkd,
    NetworkManager,
    Ifupdown,
}

const ALL: [NetworkService; 3] =
    [NetworkService::Networkd, NetworkService::NetworkManager, NetworkService::Ifupdown];

impl NetworkService {
    /// The one that this machine uses; or why it cannot be determined.
    pub(super) fn of(tree: &Tree) -> Result<NetworkService, String> {
        if tree.list("/etc/netplan").iter().any(|name| name.ends_with(".yaml")) {
            return Err("netplan generates the settings here from its own files".to_owned());
        }
        let found: Vec<NetworkService> = ALL
            .into_iter()
            .filter(|service| service.markers().iter().any(|path| tree.exists(path)))
            .collect();
        match found.as_slice() {
            [NetworkService::Ifupdown] if !ifupdown::reads_folder(tree) => {
                Err("/etc/network/interfaces does not read the files of interfaces.d".to_owned())
            }
            [service] => Ok(*service),
            [] => Err("no service that sets addresses at boot was found".to_owned()),
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

    /// Files that exist if it runs, or is started at boot.
    fn markers(self) -> [&'static str; 2] {
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

    /// Settings that exist for the device already, if any.
    pub(super) fn existing_settings(self, tree: &Tree, interface: &Interface) -> Option<String> {
        if interface.is_bond {
            return Some("a bond has its own settings".to_owned());
        }
        let names = [Some(&interface.name), interface.parent.as_ref()];
        names.into_iter().flatten().find_map(|netdev| match self {
            NetworkService::Networkd => networkd::existing_settings(tree, netdev),
            NetworkService::NetworkManager => network_manager::existing_settings(tree, netdev),
            NetworkService::Ifupdown => ifupdown::existing_settings(tree, netdev),
        })
    }

    /// The files that set their addresses at boot.
    pub(super) fn files(self, interfaces: &[Interface]) -> Vec<Change> {
        match self {
            NetworkService::Networkd => networkd::files(interfaces),
            NetworkService::NetworkManager => {
                interfaces.iter().map(network_manager::file).collect()
            }
            NetworkService::Ifupdown => interfaces.iter().map(ifupdown::file).collect(),
        }
    }

    /// The commands that make it read them before the next boot.
    pub(super) fn reload_commands(self, interfaces: &[Interface]) -> Vec<String> {
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

    /// Commands and settings for every service, where it is not certain which one is used.
    pub(super) fn all_commands(interface: &Interface) -> Vec<String> {
        let name = &interface.name;
        let each = |before: &str, between: &str| {
            let addresses = interface.addresses.iter().map(|address| format!("{before}{address}"));
            addresses.collect::<Vec<_>>().join(between)
        };
        // netplan separates the parts of a key by dots.
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
    fn every_command_fits_the_kind_of_device() {
        let plain = Interface {
            name: "eth0".to_owned(),
            parent: None,
            vlan: None,
            ipoib: None,
            is_bond: false,
            addresses: vec!["10.0.0.1/24".to_owned(), "fd00::1/64".to_owned()],
        };
        let [nmcli, netplan, ifupdown, networkd] = &NetworkService::all_commands(&plain)[..] else {
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
        assert!(NetworkService::all_commands(&ipoib)[0].contains("type infiniband ifname ib0 "));
        let (name, parent) = ("eth0.7".to_owned(), Some("eth0".to_owned()));
        let vlan = Interface { name, parent, vlan: Some(7), ..plain };
        let commands = NetworkService::all_commands(&vlan);
        assert!(commands[0].contains("type vlan dev eth0 id 7 ifname eth0.7 "), "{}", commands[0]);
        assert!(
            commands[1].contains("vlans.eth0\\.7='{id: 7, link: eth0, addresses: "),
            "{}",
            commands[1]
        );
    }
}
