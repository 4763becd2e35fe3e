//! A host of the job: its devices and programs.

use std::net::IpAddr;

use node::{Node, Tree};

use super::planned_launch::Refusal;
use super::tools::Tools;
use crate::environment::Network;

/// A host of the job: what the user gave and what was found on it.
#[derive(Debug, Clone, Copy)]
pub struct JobHost<'s> {
    /// The user's name for it, used in messages.
    pub name: &'s str,
    /// The name for ssh, or the address that the user gave for it.
    pub target: &'s str,
    /// Whether it is this machine, which needs no ssh.
    pub is_here: bool,
    /// Its address for the other hosts.
    pub address: Option<IpAddr>,
    /// Its address on the fabric, if the user gave one.
    pub fabric: Option<IpAddr>,
    /// Number of ranks, if the user gave it.
    pub slots: Option<u32>,
    /// Number of GPUs for the job, if the user gave it.
    pub gpus: Option<u32>,
    /// Facts about it.
    pub node: &'s Node,
    /// The tree that they were read from.
    pub tree: &'s Tree,
    /// Its programs.
    pub tools: &'s Tools,
}

impl JobHost<'_> {
    /// The address for data: on the fabric, or the one for the other hosts.
    pub(super) fn data_address(&self) -> Option<IpAddr> {
        self.fabric.or(self.address)
    }

    /// Number of ranks: the user's, one for each GPU, or one.
    pub(super) fn ranks(&self) -> u32 {
        let found = u32::try_from(self.node.gpus.len()).unwrap_or(0);
        self.slots.or(self.gpus).unwrap_or(found).max(1)
    }

    /// The net device with the address for data, and its network.
    pub(super) fn interface(&self) -> Option<(&str, Network)> {
        let address = self.data_address()?;
        self.node.netdevs.iter().find_map(|netdev| {
            let (address, prefix) = netdev.ips.iter().find(|(ip, _)| *ip == address)?;
            Some((netdev.name.as_str(), Network::of(*address, *prefix)?))
        })
    }

    /// Its host part in URLs: an address, or the name for ssh.
    pub(super) fn url_host(&self) -> String {
        match self.data_address() {
            Some(IpAddr::V6(address)) => format!("[{address}]"),
            Some(address) => address.to_string(),
            None => self.target.to_owned(),
        }
    }

    /// A refusal because of this host.
    pub(super) fn refusal(&self, reason: impl Into<String>) -> Refusal {
        Refusal { host: Some(self.name.to_owned()), reason: reason.into() }
    }
}
