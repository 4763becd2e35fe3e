//! A host as it was found: its devices and programs.

use std::net::IpAddr;

use node::{Node, Tree};

use super::planned_launch::Refusal;
use super::tools::Tools;
use crate::job::Network;

/// A host of the job: what the user says of it and what was found on it.
#[derive(Debug)]
pub struct Site<'s> {
    /// What the user calls it; messages name it so.
    pub name: &'s str,
    /// The name for ssh, or the address that the user gave for it.
    pub target: &'s str,
    /// Whether it is the machine that the job is started from, and kept without ssh.
    pub is_here: bool,
    /// The address that the other hosts reach it by.
    pub address: Option<IpAddr>,
    /// Its address on the fabric, if the user told one.
    pub fabric: Option<IpAddr>,
    /// How many ranks it takes, if the user told.
    pub slots: Option<u32>,
    /// How many GPUs the job may use there, if the user told.
    pub gpus: Option<u32>,
    /// Facts about it.
    pub node: &'s Node,
    /// What they were read from.
    pub tree: &'s Tree,
    /// The programs it has.
    pub tools: &'s Tools,
}

impl Site<'_> {
    /// Where data goes: its address on the fabric, or the one that others reach it by.
    pub(super) fn data_address(&self) -> Option<IpAddr> {
        self.fabric.or(self.address)
    }

    /// How many ranks: what the user said, one for each GPU, or one.
    pub(super) fn ranks(&self) -> u32 {
        let found = u32::try_from(self.node.gpus.len()).unwrap_or(0);
        self.slots.or(self.gpus).unwrap_or(found).max(1)
    }

    /// The net device that has the address where data goes, and the network it is in.
    pub(super) fn interface(&self) -> Option<(&str, Network)> {
        let address = self.data_address()?;
        self.node.netdevs.iter().find_map(|netdev| {
            let (address, prefix) = netdev.ips.iter().find(|(ip, _)| *ip == address)?;
            Some((netdev.name.as_str(), Network::of(*address, *prefix)?))
        })
    }

    /// Where others find it: an address, or the name for ssh.
    pub(super) fn reached_by(&self) -> String {
        match self.data_address() {
            Some(IpAddr::V6(address)) => format!("[{address}]"),
            Some(address) => address.to_string(),
            None => self.target.to_owned(),
        }
    }

    /// A refusal in its name.
    pub(super) fn refuses(&self, reason: impl Into<String>) -> Refusal {
        Refusal { host: Some(self.name.to_owned()), reason: reason.into() }
    }
}
