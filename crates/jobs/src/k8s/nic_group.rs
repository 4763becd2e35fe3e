//! The NICs of a node that can be assigned to pods: physical functions of one model and link type.

use node::{Device, LinkLayer, Node, Port, Role};

/// Physical functions that one SriovNetworkNodePolicy can select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicGroup {
    /// The vendor ID in such a policy: `15b3`.
    pub vendor: String,
    /// The device ID: `101b`.
    pub device: String,
    /// The link type.
    pub link: LinkType,
    /// Their net devices; empty if one has none.
    pub pf_names: Vec<String>,
    /// Their PCI addresses.
    pub addresses: Vec<String>,
    /// The MTU of their net devices, if it is the same.
    pub mtu: Option<u32>,
    /// The number of virtual functions that each supports.
    pub vfs_max: u32,
    /// Their RDMA devices.
    pub rdma_devices: Vec<String>,
    /// The rate of each active port in Mb/s.
    pub rates_mbps: Vec<u64>,
}

/// The link type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkType {
    /// RoCE.
    Ethernet,
    /// InfiniBand.
    InfiniBand,
}

impl LinkType {
    /// The SR-IOV operator's name.
    pub fn name(self) -> &'static str {
        match self {
            LinkType::Ethernet => "eth",
            LinkType::InfiniBand => "ib",
        }
    }

    /// The name for users.
    fn title(self) -> &'static str {
        match self {
            LinkType::Ethernet => "RoCE",
            LinkType::InfiniBand => "InfiniBand",
        }
    }
}

impl NicGroup {
    /// The NICs of a node, the most numerous first, and why other devices are left out.
    pub fn find(node: &Node) -> (Vec<NicGroup>, Vec<String>) {
        let (mut nics, mut notes): (Vec<NicGroup>, Vec<String>) = (Vec::new(), Vec::new());
        for device in &node.devices {
            match NicGroup::of(node, device) {
                Ok(nic) => match nics.iter_mut().find(|known| known.is_same_model(&nic)) {
                    Some(known) => known.join(nic),
                    None => nics.push(nic),
                },
                Err(reason) => notes.push(format!("{} is left out: {reason}", device.name)),
            }
        }
        nics.sort_by_key(|nic| std::cmp::Reverse(nic.addresses.len()));
        (nics, notes)
    }

    /// Those that a job uses, by the rules of `wirelane env`, and why others are left out: InfiniBand and RoCE cannot be
    /// mixed, and a NIC with less than half of the highest rate is of another network, such as that of storage. Addresses
    /// do not count: net devices of physical functions often have none.
    pub fn of_jobs(nics: Vec<NicGroup>) -> (Vec<NicGroup>, Vec<String>) {
        let total = |link: LinkType| -> u64 {
            nics.iter().filter(|nic| nic.link == link).flat_map(|nic| &nic.rates_mbps).sum()
        };
        let link = match total(LinkType::InfiniBand) >= total(LinkType::Ethernet) {
            true => LinkType::InfiniBand,
            false => LinkType::Ethernet,
        };
        if total(link) == 0 {
            return (nics, Vec::new());
        }
        let of_link = nics.iter().filter(|nic| nic.link == link);
        let fastest = of_link.filter_map(NicGroup::mbps).max().unwrap_or(0);
        let (mut kept, mut notes) = (Vec::new(), Vec::new());
        for nic in nics {
            let why = if nic.link != link {
                format!(
                    "{}, and {} is faster: they cannot be mixed",
                    nic.link.title(),
                    link.title()
                )
            } else if let Some(mbps) = nic.mbps().filter(|mbps| mbps * 2 < fastest) {
                let gbps = |mbps: u64| mbps as f64 / 1000.0;
                format!(
                    "{} Gb/s, less than half of {} Gb/s: assumed to be another network",
                    gbps(mbps),
                    gbps(fastest)
                )
            } else {
                kept.push(nic);
                continue;
            };
            notes.push(format!("{} is left out: {why}", nic.rdma_devices.join(", ")));
        }
        (kept, notes)
    }

    /// The rate of its fastest port; `None` if none is active.
    fn mbps(&self) -> Option<u64> {
        self.rates_mbps.iter().copied().max()
    }

    fn of(node: &Node, device: &Device) -> Result<NicGroup, &'static str> {
        let vfs_max = match device.role {
            Role::Physical { vfs_max: Some(max), .. } if max > 0 => max,
            Role::Physical { .. } => {
                return Err("it supports no virtual functions (sriov_totalvfs)");
            }
            Role::Virtual { .. } => return Err("it is a virtual function"),
            Role::Software | Role::Unknown => return Err("it is not a NIC"),
        };
        let address = device.pci.ok_or("it has no PCI address")?;
        let function = node.pci.get(&address).ok_or("its PCI function is not readable")?;
        let id = |id: Option<&u16>| id.map(|id| format!("{id:04x}"));
        let port = device.ports.iter().find(|port| port.is_active()).or(device.ports.first());
        let port = port.ok_or("it has no port")?;
        let netdev = port.netdev.as_deref().and_then(|name| node.netdev(name));
        Ok(NicGroup {
            vendor: id(function.vendor.value()).ok_or("its vendor is not readable")?,
            device: id(function.device.value()).ok_or("its model is not readable")?,
            link: link(port)?,
            pf_names: netdev.map(|netdev| netdev.name.clone()).into_iter().collect(),
            addresses: vec![address.to_string()],
            mtu: netdev.and_then(|netdev| netdev.mtu.value().copied()),
            vfs_max,
            rdma_devices: vec![device.name.clone()],
            rates_mbps: port
                .rate
                .value()
                .filter(|_| port.is_active())
                .map(|rate| rate.mbps)
                .into_iter()
                .collect(),
        })
    }

    fn is_same_model(&self, other: &NicGroup) -> bool {
        let model = |nic: &NicGroup| (nic.vendor.clone(), nic.device.clone(), nic.link);
        model(self) == model(other)
    }

    fn join(&mut self, other: NicGroup) {
        // Names are used only if all have one; addresses always work.
        if self.pf_names.is_empty() || other.pf_names.is_empty() {
            self.pf_names.clear();
        } else {
            self.pf_names.extend(other.pf_names);
        }
        self.addresses.extend(other.addresses);
        self.rdma_devices.extend(other.rdma_devices);
        self.rates_mbps.extend(other.rates_mbps);
        self.mtu = self.mtu.filter(|mtu| other.mtu == Some(*mtu));
        self.vfs_max = self.vfs_max.min(other.vfs_max);
    }
}

fn link(port: &Port) -> Result<LinkType, &'static str> {
    match port.link_layer.value() {
        Some(LinkLayer::Ethernet) => Ok(LinkType::Ethernet),
        Some(LinkLayer::InfiniBand) => Ok(LinkType::InfiniBand),
        _ => Err("it is neither Ethernet nor InfiniBand"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(link: LinkType, device: &str, names: &[&str], mtu: u32) -> NicGroup {
        NicGroup {
            vendor: "15b3".to_owned(),
            device: device.to_owned(),
            link,
            pf_names: names.iter().map(|name| (*name).to_owned()).collect(),
            addresses: vec!["0000:01:00.0".to_owned()],
            mtu: Some(mtu),
            vfs_max: 16,
            rdma_devices: vec!["mlx5_0".to_owned()],
            rates_mbps: Vec::new(),
        }
    }

    #[test]
    fn jobs_use_the_nics_of_one_fabric() {
        let nic = |link, device: &str, mbps: &[u64]| NicGroup {
            rates_mbps: mbps.to_vec(),
            rdma_devices: vec![format!("mlx5_{device}")],
            ..nic(link, device, &[], 9000)
        };
        let kept = |nics: Vec<NicGroup>| {
            let (kept, notes) = NicGroup::of_jobs(nics);
            (kept.into_iter().map(|nic| nic.device).collect::<Vec<_>>().join(" "), notes.join("\n"))
        };
        let (infiniband, roce) = (LinkType::InfiniBand, LinkType::Ethernet);
        let storage = nic(roce, "b", &[200_000]);
        let (devices, notes) = kept(vec![nic(infiniband, "a", &[400_000; 8]), storage.clone()]);
        assert_eq!(devices, "a");
        assert_eq!(
            notes,
            "mlx5_b is left out: RoCE, and InfiniBand is faster: they cannot be mixed"
        );
        let (devices, notes) =
            kept(vec![nic(roce, "a", &[400_000; 2]), storage, nic(roce, "c", &[25_000; 2])]);
        assert_eq!(devices, "a b");
        assert!(notes.contains("mlx5_c") && notes.contains("25 Gb/s, less than half"), "{notes}");
        // Without an active port nothing is known.
        assert_eq!(kept(vec![nic(infiniband, "a", &[]), nic(roce, "b", &[])]).0, "a b");
    }

    #[test]
    fn nics_without_common_names_and_mtu_are_selected_by_address() {
        let mut nics = nic(LinkType::Ethernet, "101b", &["eth1"], 9000);
        nics.join(nic(LinkType::Ethernet, "101b", &["eth2"], 9000));
        assert_eq!((nics.pf_names.len(), nics.mtu), (2, Some(9000)));
        nics.join(nic(LinkType::Ethernet, "101b", &[], 1500));
        assert_eq!((nics.pf_names.len(), nics.addresses.len(), nics.mtu), (0, 3, None));
    }
}
