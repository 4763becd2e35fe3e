//! Who sets addresses when this machine starts, found out from what it has: one of them, or it is not certain.

mod ifupdown;
mod network_manager;
mod networkd;

use node::Tree;

use crate::change::Change;

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
pub(super) enum Keeper {
    Networkd,
    NetworkManager,
    Ifupdown,
}

const ALL: [Keeper; 3] = [Keeper::Networkd, Keeper::NetworkManager, Keeper::Ifupdown];

impl Keeper {
    /// The one that this machine has; or why that is not certain.
    pub(super) fn of(tree: &Tree) -> Result<Keeper, String> {
        if tree.list("/etc/netplan").iter().any(|name| name.ends_with(".yaml")) {
            return Err("netplan makes the settings here from files of its own".to_owned());
        }
        let found: Vec<Keeper> = ALL
            .into_iter()
            .filter(|keeper| keeper.signs().iter().any(|sign| tree.exists(sign)))
            .collect();
        match found.as_slice() {
            [Keeper::Ifupdown] if !ifupdown::reads_folder(tree) => {
                Err("/etc/network/interfaces does not read the files of interfaces.d".to_owned())
            }
            [keeper] => Ok(*keeper),
            [] => Err("who sets addresses at a start is not known here".to_owned()),
            many => {
                let names: Vec<&str> = many.iter().map(|keeper| keeper.name()).collect();
                Err(format!("{} are both in use here", names.join(" and ")))
            }
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Keeper::Networkd => "systemd-networkd",
            Keeper::NetworkManager => "NetworkManager",
            Keeper::Ifupdown => "ifupdown",
        }
    }

    /// That it runs, or is started with the machine.
    fn signs(self) -> [&'static str; 2] {
        match self {
            Keeper::Networkd => [
                "/run/systemd/netif/state",
                "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service",
            ],
            Keeper::NetworkManager => [
                "/run/NetworkManager/devices",
                "/etc/systemd/system/multi-user.target.wants/NetworkManager.service",
            ],
            Keeper::Ifupdown => [
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
            Keeper::Networkd => networkd::taken(tree, netdev),
            Keeper::NetworkManager => network_manager::taken(tree, netdev),
            Keeper::Ifupdown => ifupdown::taken(tree, netdev),
        })
    }

    /// The files that keep their addresses.
    pub(super) fn files(self, interfaces: &[Interface]) -> Vec<Change> {
        match self {
            Keeper::Networkd => networkd::files(interfaces),
            Keeper::NetworkManager => interfaces.iter().map(network_manager::file).collect(),
            Keeper::Ifupdown => interfaces.iter().map(ifupdown::file).collect(),
        }
    }

    /// How it is told to read them before the next start.
    pub(super) fn read_now(self, interfaces: &[Interface]) -> Vec<String> {
        let each = interfaces.iter();
        match self {
            Keeper::Networkd => vec!["networkctl reload".to_owned()],
            Keeper::NetworkManager => each
                .flat_map(|interface| {
                    let load =
                        format!("nmcli connection load {}", network_manager::path(interface));
                    [load, format!("nmcli connection up wirelane-{}", interface.name)]
                })
                .collect(),
            Keeper::Ifupdown => {
                each.map(|interface| format!("ifup --force {}", interface.name)).collect()
            }
        }
    }

    /// The ways to keep it by hand, where it is not certain which is right.
    pub(super) fn all_ways(interface: &Interface) -> Vec<String> {
        let Interface { name, addresses, .. } = interface;
        let both = addresses.join(" ");
        vec![
            format!(
                "nmcli connection add type ethernet ifname {name} ip4 {both}    # NetworkManager"
            ),
            format!(
                "netplan set ethernets.{name}.addresses='[{}]'    # netplan",
                addresses.join(",")
            ),
            format!(
                "address {both} in a stanza `iface {name}` of /etc/network/interfaces    # ifupdown"
            ),
            format!(
                "Address={both} under [Network] in /etc/systemd/network/10-{name}.network    # systemd-networkd"
            ),
        ]
    }
}
