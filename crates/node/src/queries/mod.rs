//! Facts that are in no file: the results of queries to netlink, drivers (ioctl), NVML and programs.
//!
//! On a running machine each group is queried once, when it is first needed. A snapshot has the results of
//! its time; a folder has none. Unknown is `None`, never a default.

mod cm_id;
mod dcb;
mod ethtool;
mod firewall;
mod gpu_reading;
mod interface;
pub(crate) mod kernel_log;
mod netlink;
pub(crate) mod nvml;
pub(crate) mod process_resources;
mod program;
mod rdma;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use cm_id::CmId;
pub use dcb::Dcb;
pub use ethtool::{Coalescing, Ethtool, LinkModes, Pause, PluggableModule, Rings};
pub(crate) use ethtool::{EthtoolSocket, StatisticNames};
pub use firewall::Firewall;
pub use gpu_reading::{GpuReading, NvLink};
pub use interface::{Interface, InterfaceAddress};
pub use kernel_log::{KernelLog, LogKind, LogLine};
pub use nvml::{Nvml, NvmlGpu, XidSource};
pub use process_resources::{ProcessResources, ProcessResourcesList};
pub use rdma::{RdmaLink, RdmaSystem};

/// Results of queries to the kernel, to libraries and to programs.
#[derive(Debug, Default)]
pub struct QueryResults {
    /// Whether missing results are queried.
    live: bool,
    rdma: OnceCell<Option<RdmaSystem>>,
    process_resources: OnceCell<Option<ProcessResourcesList>>,
    interfaces: OnceCell<Option<Vec<Interface>>>,
    ethtool: OnceCell<Option<BTreeMap<String, Ethtool>>>,
    dcb: OnceCell<Option<BTreeMap<String, Dcb>>>,
    nvml: OnceCell<Option<Nvml>>,
    kernel_log: OnceCell<Option<KernelLog>>,
    firewall: OnceCell<Option<Firewall>>,
}

impl QueryResults {
    pub(crate) fn live() -> Self {
        QueryResults { live: true, ..QueryResults::default() }
    }

    /// Clears the results, so that they are queried again; except those of NVML, which takes seconds to start
    /// ([`crate::sampling::GpuSampler`] samples GPUs).
    pub(crate) fn clear(&mut self) {
        if self.live {
            let nvml = std::mem::take(&mut self.nvml);
            *self = QueryResults { nvml, ..QueryResults::live() };
        }
    }

    /// The RDMA subsystem, from netlink.
    pub fn rdma(&self) -> Option<&RdmaSystem> {
        self.rdma.get_or_init(|| if self.live { rdma::query() } else { None }).as_ref()
    }

    /// Processes with RDMA resources, from netlink.
    pub fn process_resources(&self) -> Option<&ProcessResourcesList> {
        self.process_resources
            .get_or_init(|| if self.live { process_resources::query() } else { None })
            .as_ref()
    }

    /// Current connections and listeners of RDMA: never cached, and only on the running machine.
    pub fn cm_ids(&self) -> Option<Vec<CmId>> {
        if self.live { cm_id::query() } else { None }
    }

    /// Net devices and their addresses, from netlink.
    pub fn interfaces(&self) -> Option<&Vec<Interface>> {
        self.interfaces.get_or_init(|| if self.live { interface::query() } else { None }).as_ref()
    }

    /// Facts from ethtool, by net device.
    pub fn ethtool(&self) -> Option<&BTreeMap<String, Ethtool>> {
        self.ethtool
            .get_or_init(|| if self.live { ethtool::query(self.netdevs()) } else { None })
            .as_ref()
    }

    /// Flow control per priority, by net device.
    pub fn dcb(&self) -> Option<&BTreeMap<String, Dcb>> {
        self.dcb.get_or_init(|| if self.live { dcb::query(self.netdevs()) } else { None }).as_ref()
    }

    /// The net devices whose drivers are queried: a host with thousands of pods has as many without facts.
    fn netdevs(&self) -> &[Interface] {
        let all = self.interfaces().map_or(&[][..], Vec::as_slice);
        &all[..all.len().min(MAX_NETDEVS)]
    }

    /// NVIDIA GPUs, from NVML.
    pub fn nvml(&self) -> Option<&Nvml> {
        self.nvml.get_or_init(|| if self.live { nvml::query() } else { None }).as_ref()
    }

    /// Relevant lines of the kernel log.
    pub fn kernel_log(&self) -> Option<&KernelLog> {
        self.kernel_log.get_or_init(|| if self.live { kernel_log::query() } else { None }).as_ref()
    }

    /// The firewall's rules.
    pub fn firewall(&self) -> Option<&Firewall> {
        self.firewall.get_or_init(|| if self.live { firewall::query() } else { None }).as_ref()
    }
}

impl Serialize for QueryResults {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = QueryResultsDocument {
            rdma: self.rdma().cloned(),
            process_resources: self.process_resources().cloned(),
            interfaces: self.interfaces().cloned(),
            ethtool: self.ethtool().cloned(),
            dcb: self.dcb().cloned(),
            nvml: self.nvml().cloned(),
            kernel_log: self.kernel_log().cloned(),
            firewall: self.firewall().cloned(),
        };
        document.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for QueryResults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = QueryResultsDocument::deserialize(deserializer)?;
        Ok(QueryResults {
            live: false,
            rdma: document.rdma.into(),
            process_resources: document.process_resources.into(),
            interfaces: document.interfaces.into(),
            ethtool: document.ethtool.into(),
            dcb: document.dcb.into(),
            nvml: document.nvml.into(),
            kernel_log: document.kernel_log.into(),
            firewall: document.firewall.into(),
        })
    }
}

/// Parses any bytes as netlink messages.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_netlink(bytes: &[u8]) {
    for body in netlink::messages(bytes).map(|message| message.body()).chain([bytes]) {
        netlink::attributes(body).for_each(|(_, value)| drop(netlink::text(value)));
        rdma::fuzz(body);
        cm_id::fuzz(body);
        process_resources::fuzz(body);
        interface::fuzz(body);
        dcb::fuzz(body);
    }
}

/// Parses any bytes as a cable's EEPROM.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_cable(bytes: &[u8]) {
    ethtool::eeprom::parse(bytes);
}

/// Parses any bytes as output of programs and of the kernel log.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_texts(bytes: &[u8]) {
    kernel_log::fuzz(bytes);
    if let Ok(text) = str::from_utf8(bytes) {
        firewall::fuzz(text);
        process_resources::fuzz_cgroup(text);
    }
}

/// The results in a snapshot.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct QueryResultsDocument {
    rdma: Option<RdmaSystem>,
    process_resources: Option<ProcessResourcesList>,
    interfaces: Option<Vec<Interface>>,
    ethtool: Option<BTreeMap<String, Ethtool>>,
    dcb: Option<BTreeMap<String, Dcb>>,
    nvml: Option<Nvml>,
    kernel_log: Option<KernelLog>,
    firewall: Option<Firewall>,
}

const MAX_NETDEVS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_removes_all_but_gpus() {
        let gpus = Nvml { driver: Some("550.90.07".to_owned()), ..Nvml::default() };
        let mut query_results = QueryResults {
            live: true,
            nvml: Some(gpus.clone()).into(),
            rdma: Some(RdmaSystem::default()).into(),
            ..QueryResults::default()
        };
        query_results.clear();
        assert_eq!(query_results.nvml(), Some(&gpus), "queried once");
        assert!(query_results.rdma.get().is_none(), "queried again when needed");
        let mut snapshot =
            QueryResults { rdma: Some(RdmaSystem::default()).into(), ..QueryResults::default() };
        snapshot.clear();
        assert!(snapshot.rdma().is_some(), "a snapshot keeps its results");
    }
}
