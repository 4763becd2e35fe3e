//! Addresses of fabric ports: set now, and after a restart by the network service of this machine.

use std::net::IpAddr;
use std::str::FromStr;

use node::{Device, LinkLayer, NetDev, Port};
use serde::Serialize;

use super::network_service::{Interface, NetworkService};
use super::{Context, PERSISTENT, Refusal};
use crate::{Change, Plan};

/// An address for a port: `[HOST/]PORT[@VLAN]=ADDRESS/PREFIX`, where PORT is an RDMA device (`mlx5_0`),
/// one port of it (`mlx5_0:2`), or a net device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PortAddress {
    /// The host that it is for, where several are set up.
    pub host: Option<String>,
    /// The RDMA device or net device.
    pub name: String,
    /// The port of the RDMA device.
    pub port: Option<u32>,
    /// The VLAN on it.
    pub vlan: Option<u16>,
    /// The address.
    pub address: IpAddr,
    /// The length of the network prefix, in bits.
    pub prefix: u8,
}

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let interfaces = interfaces(context)?;
    advise_missing(context, plan, &interfaces);
    if interfaces.is_empty() {
        return Ok(());
    }
    match NetworkService::of(context.tree) {
        Ok(service) => set_by(service, context, plan, interfaces),
        Err(why) => {
            for interface in &interfaces {
                set_now(plan, interface);
                let why =
                    format!("{}: {why}: lost at a restart unless you configure it", interface.name);
                plan.advise("address", why, NetworkService::all_commands(interface));
            }
        }
    }
    Ok(())
}

/// RoCE has a routable GID only if the net device has an address. This program cannot choose it.
fn advise_missing(context: &Context<'_>, plan: &mut Plan, interfaces: &[Interface]) {
    let purpose = context.request.purpose.name();
    for device in &context.node.devices {
        for port in device.ports.iter().filter(|port| is_roce_without_address(port)) {
            let Some(netdev) = &port.netdev else { continue };
            let master = context.node.netdev(netdev).and_then(|netdev| netdev.master.as_ref());
            let is_own = |name: &String| name == netdev || Some(name) == master;
            let is_wanted = |interface: &Interface| {
                is_own(&interface.name) || interface.parent.as_ref().is_some_and(is_own)
            };
            if interfaces.iter().any(is_wanted) {
                continue;
            }
            let name = match device.ports.len() {
                1 => device.name.clone(),
                _ => format!("{}:{}", device.name, port.number),
            };
            let why = format!("{name}: RoCE needs an address, and {netdev} has none: choose one");
            let command = format!("wirelane setup {purpose} apply --address {name}=ADDRESS/PREFIX");
            plan.advise("address", why, vec![command]);
        }
    }
}

fn is_roce_without_address(port: &Port) -> bool {
    port.is_active()
        && port.link_layer.value() == Some(&LinkLayer::Ethernet)
        && !port.gids.is_empty()
        && port.gids.iter().all(node::Gid::is_link_local)
}

/// Addresses of devices without other settings are set now and after a restart; other devices get advice, to avoid conflicting
/// settings.
fn set_by(
    service: NetworkService,
    context: &Context<'_>,
    plan: &mut Plan,
    interfaces: Vec<Interface>,
) {
    let mut free = Vec::new();
    for interface in interfaces {
        match service.existing_settings(context.tree, &interface) {
            None => free.push(interface),
            Some(why) => {
                let why = format!("{}: {why}; add the address there", interface.name);
                let lines = interface.addresses.iter().map(|address| format!("address {address}"));
                plan.advise("address", why, lines.collect());
            }
        }
    }
    free.iter().for_each(|interface| set_now(plan, interface));
    for change in service.files(&free) {
        plan.step("address", PERSISTENT, change, false);
    }
    if !free.is_empty() {
        let why = format!("{} reads new files at the next boot; to apply them now", service.name());
        plan.advise("address", why, service.reload_commands(&free));
    }
}

/// Steps for the running machine.
fn set_now(plan: &mut Plan, interface: &Interface) {
    let up = Change::link_up(interface.parent.as_ref().unwrap_or(&interface.name));
    // Once, even if several VLANs are on it.
    if plan.steps.iter().all(|step| step.change != up) {
        plan.step("address", "the link must be up", up, true);
    }
    if let (Some(parent), Some(id)) = (&interface.parent, interface.vlan) {
        plan.step("address", format!("VLAN {id} is requested"), Change::vlan(parent, id), true);
    }
    for address in &interface.addresses {
        let change = Change::address(&interface.name, address);
        plan.step("address", "the address is requested", change, true);
    }
}

/// The net devices to set addresses on, each once.
fn interfaces(context: &Context<'_>) -> Result<Vec<Interface>, Refusal> {
    let mut found: Vec<Interface> = Vec::new();
    for wanted in &context.request.addresses {
        let interface = wanted.interface(context)?;
        match found.iter_mut().find(|known| known.name == interface.name) {
            Some(known) => known.addresses.extend(interface.addresses),
            None => found.push(interface),
        }
    }
    Ok(found)
}

impl PortAddress {
    /// The argument without the host.
    pub fn without_host(&self) -> String {
        let port = self.port.map_or_else(String::new, |port| format!(":{port}"));
        let vlan = self.vlan.map_or_else(String::new, |vlan| format!("@{vlan}"));
        format!("{}{port}{vlan}={}/{}", self.name, self.address, self.prefix)
    }

    fn interface(&self, context: &Context<'_>) -> Result<Interface, Refusal> {
        let netdev = self.netdev(context)?;
        self.check_owner(context, netdev)?;
        let name = match self.vlan {
            Some(id) => format!("{}.{id}", netdev.name),
            None => netdev.name.clone(),
        };
        if name.len() > MAX_NAME_BYTES {
            return Err(self.wrong(&format!(
                "{name} is longer than the limit for net device names ({MAX_NAME_BYTES})"
            )));
        }
        let mode = context.request.ipoib.map(|mode| mode.name().to_owned());
        Ok(Interface {
            parent: self.vlan.map(|_| netdev.name.clone()),
            vlan: self.vlan,
            ipoib: netdev.ipoib_mode.as_ref().map(|now| mode.unwrap_or_else(|| now.clone())),
            is_bond: netdev.bonding.is_some(),
            addresses: vec![format!("{}/{}", self.address, self.prefix)],
            name,
        })
    }

    fn netdev<'a>(&self, context: &Context<'a>) -> Result<&'a NetDev, Refusal> {
        let netdev = match context.node.device(&self.name) {
            Some(device) => self.netdev_of(context, device)?,
            None => context.node.netdev(&self.name).ok_or_else(|| {
                let names: Vec<&str> =
                    context.node.devices.iter().map(|device| device.name.as_str()).collect();
                let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                self.wrong(&format!(
                    "no RDMA device or net device {:?}; RDMA devices: {there}",
                    self.name
                ))
            })?,
        };
        // Members of a bond or a bridge have no addresses.
        let Some(master) = &netdev.master else { return Ok(netdev) };
        match context.node.netdev(master) {
            Some(bond) if bond.bonding.is_some() => Ok(bond),
            _ => {
                Err(self.wrong(&format!("{} is a member of {master}: name that one", netdev.name)))
            }
        }
    }

    fn netdev_of<'a>(
        &self,
        context: &Context<'a>,
        device: &'a Device,
    ) -> Result<&'a NetDev, Refusal> {
        let ports =
            device.ports.iter().filter(|port| self.port.is_none_or(|number| port.number == number));
        let mut names: Vec<&str> = ports.filter_map(|port| port.netdev.as_deref()).collect();
        names.dedup();
        match names.as_slice() {
            [name] => context
                .node
                .netdev(name)
                .ok_or_else(|| self.wrong(&format!("its net device {name} is missing"))),
            [] => Err(self.wrong(&format!("{} has no net device", self.name))),
            many => Err(self.wrong(&format!(
                "{0} has several ports ({1}): name one, as {0}:1",
                self.name,
                many.join(", ")
            ))),
        }
    }

    fn check_owner(&self, context: &Context<'_>, netdev: &NetDev) -> Result<(), Refusal> {
        let vlan = self.vlan.map(|id| format!("{}.{id}", netdev.name));
        let own = vlan.as_deref().unwrap_or(&netdev.name);
        let mut others = context.node.netdevs.iter().filter(|other| other.name != own);
        match others.find(|other| other.ips.iter().any(|(ip, _)| *ip == self.address)) {
            Some(other) => Err(self.wrong(&format!("{} already has this address", other.name))),
            None => Ok(()),
        }
    }

    fn wrong(&self, why: &str) -> Refusal {
        Refusal::WrongUse(format!("address {}: {why}", self.without_host()))
    }
}

impl FromStr for PortAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            format!(
                "{text:?} is not of the form [HOST/]DEVICE[:PORT][@VLAN]=ADDRESS/PREFIX, as mlx5_0=10.0.0.1/24"
            )
        };
        let (place, address) = text.split_once('=').ok_or_else(form)?;
        let (host, place) = match place.split_once('/') {
            Some((host, place)) if !host.is_empty() => (Some(host.to_owned()), place),
            Some(_) => return Err(form()),
            None => (None, place),
        };
        let (place, vlan) = match place.split_once('@') {
            Some((place, vlan)) => (place, Some(vlan.parse().map_err(|_| form())?)),
            None => (place, None),
        };
        let (name, port) = match place.split_once(':') {
            Some((name, port)) => (name, Some(port.parse().map_err(|_| form())?)),
            None => (place, None),
        };
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        if name.is_empty() || !name.chars().all(plain) {
            return Err(form());
        }
        let (address, prefix) = address.split_once('/').ok_or_else(form)?;
        let parsed = PortAddress {
            host,
            name: name.to_owned(),
            port,
            vlan,
            address: address.parse().map_err(|_| form())?,
            prefix: prefix.parse().map_err(|_| form())?,
        };
        parsed.check().map_err(|why| format!("{text:?}: {why}"))?;
        Ok(parsed)
    }
}

impl PortAddress {
    /// Checks that a host can have this address.
    fn check(&self) -> Result<(), String> {
        if self.vlan.is_some_and(|id| !(1..=4094).contains(&id)) {
            return Err("a VLAN ID is 1 to 4094".to_owned());
        }
        let special = self.address.is_unspecified()
            || self.address.is_multicast()
            || self.address.is_loopback();
        let (longest, fits) = match self.address {
            IpAddr::V4(address) => {
                (32, self.prefix > 30 || is_host(address.to_bits(), self.prefix))
            }
            IpAddr::V6(_) => (128, true),
        };
        match () {
            () if self.prefix == 0 || self.prefix > longest => {
                Err(format!("the prefix length is 1 to {longest}"))
            }
            () if special || !fits => Err(format!("no host can have the address {}", self.address)),
            () => Ok(()),
        }
    }
}

/// Neither the network address nor the broadcast address.
fn is_host(address: u32, prefix: u8) -> bool {
    let host = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
    address & host != 0 && address & host != host
}

/// IFNAMSIZ without the terminating zero.
const MAX_NAME_BYTES: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_port_and_may_name_host_and_vlan() {
        let plain: PortAddress = "mlx5_0=10.0.0.1/24".parse().expect("an address");
        assert_eq!((plain.name.as_str(), plain.prefix, plain.port), ("mlx5_0", 24, None));
        let full: PortAddress = "gpu01/mlx4_0:2@100=fd00::1/64".parse().expect("an address");
        assert_eq!(full.host.as_deref(), Some("gpu01"));
        assert_eq!((full.port, full.vlan, full.prefix), (Some(2), Some(100), 64));
    }

    #[test]
    fn addresses_that_no_host_can_have_are_refused() {
        for wrong in [
            "mlx5_0",
            "mlx5_0=10.0.0.1",
            "=10.0.0.1/24",
            "/mlx5_0=10.0.0.1/24",
            "a b=10.0.0.1/24",
            "mlx5_0=10.0.0.0/24",
            "mlx5_0=10.0.0.255/24",
            "mlx5_0=127.0.0.1/8",
            "mlx5_0=10.0.0.1/33",
            "mlx5_0=10.0.0.1/0",
            "mlx5_0@4095=10.0.0.1/24",
            "mlx5_0@x=10.0.0.1/24",
            "mlx5_0=0.0.0.0/32",
            "eth0;reboot=10.0.0.1/24",
        ] {
            assert!(wrong.parse::<PortAddress>().is_err(), "{wrong}");
        }
        assert!("mlx5_0=10.0.0.0/31".parse::<PortAddress>().is_ok(), "a point-to-point link");
    }
}
