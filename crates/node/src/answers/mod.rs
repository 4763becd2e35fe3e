//! What is in no file: answers of netlink, ioctls, NVML and other programs.
//!
//! On a running machine each group is asked for when it is first wanted, and once. In a snapshot they are as
//! they were then; a bare tree has none. Unknown is `None`, never a default.

mod cm_id;
mod dcb;
mod ethtool;
mod firewall;
mod gpu_reading;
pub(crate) mod holders;
mod interface;
pub(crate) mod kernel_log;
mod netlink;
pub(crate) mod nvml;
mod program;
mod rdma;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use cm_id::CmId;
pub use dcb::Dcb;
pub(crate) use ethtool::{Asked as AskedEthtool, Names as EthtoolNames};
pub use ethtool::{Coalescing, Ethtool, LinkModes, Pause, PluggableModule, Rings};
pub use firewall::Firewall;
pub use gpu_reading::{GpuReading, NvLink};
pub use holders::{Holder, Holders};
pub use interface::{Interface, InterfaceAddress};
pub use kernel_log::{KernelLog, LogKind, LogLine};
pub use nvml::{Nvml, NvmlGpu, XidsBy};
pub use rdma::{RdmaLink, RdmaSystem};

/// What was asked of the kernel and of libraries.
#[derive(Debug, Default)]
pub struct Answers {
    /// Whether what is not known yet can be asked for.
    live: bool,
    rdma: OnceCell<Option<RdmaSystem>>,
    holders: OnceCell<Option<Holders>>,
    interfaces: OnceCell<Option<Vec<Interface>>>,
    ethtool: OnceCell<Option<BTreeMap<String, Ethtool>>>,
    dcb: OnceCell<Option<BTreeMap<String, Dcb>>>,
    nvml: OnceCell<Option<Nvml>>,
    kernel_log: OnceCell<Option<KernelLog>>,
    firewall: OnceCell<Option<Firewall>>,
}

impl Answers {
    pub(crate) fn live() -> Self {
        Answers { live: true, ..Answers::default() }
    }

    /// Forgets what was told, so that it is asked for anew; but not of GPUs, whose library takes seconds to start and
    /// which [`crate::watch::GpuWatch`] watches.
    pub(crate) fn renew(&mut self) {
        if self.live {
            let nvml = std::mem::take(&mut self.nvml);
            *self = Answers { nvml, ..Answers::live() };
        }
    }

    /// The RDMA subsystem, by netlink.
    pub fn rdma(&self) -> Option<&RdmaSystem> {
        self.rdma.get_or_init(|| if self.live { rdma::ask() } else { None }).as_ref()
    }

    /// Who holds RDMA resources, by netlink.
    pub fn holders(&self) -> Option<&Holders> {
        self.holders.get_or_init(|| if self.live { holders::ask() } else { None }).as_ref()
    }

    /// Connections and listeners of RDMA as they are now: never kept, and known of the running machine alone.
    pub fn cm_ids(&self) -> Option<Vec<CmId>> {
        if self.live { cm_id::ask() } else { None }
    }

    /// Net devices and their addresses, by netlink.
    pub fn interfaces(&self) -> Option<&Vec<Interface>> {
        self.interfaces.get_or_init(|| if self.live { interface::ask() } else { None }).as_ref()
    }

    /// Net devices by name, as their drivers tell by ethtool.
    pub fn ethtool(&self) -> Option<&BTreeMap<String, Ethtool>> {
        self.ethtool
            .get_or_init(|| if self.live { ethtool::ask(self.netdevs()) } else { None })
            .as_ref()
    }

    /// Net devices by name: flow control per priority.
    pub fn dcb(&self) -> Option<&BTreeMap<String, Dcb>> {
        self.dcb.get_or_init(|| if self.live { dcb::ask(self.netdevs()) } else { None }).as_ref()
    }

    /// The net devices whose drivers are asked: a host of thousands of pods has as many that tell nothing.
    fn netdevs(&self) -> &[Interface] {
        let all = self.interfaces().map_or(&[][..], Vec::as_slice);
        &all[..all.len().min(MAX_ASKED)]
    }

    /// NVIDIA GPUs, by NVML.
    pub fn nvml(&self) -> Option<&Nvml> {
        self.nvml.get_or_init(|| if self.live { nvml::ask() } else { None }).as_ref()
    }

    /// Lines of the kernel's log that matter.
    pub fn kernel_log(&self) -> Option<&KernelLog> {
        self.kernel_log.get_or_init(|| if self.live { kernel_log::ask() } else { None }).as_ref()
    }

    /// The packet filter's rules.
    pub fn firewall(&self) -> Option<&Firewall> {
        self.firewall.get_or_init(|| if self.live { firewall::ask() } else { None }).as_ref()
    }
}

impl Serialize for Answers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kept = Kept {
            rdma: self.rdma().cloned(),
            holders: self.holders().cloned(),
            interfaces: self.interfaces().cloned(),
            ethtool: self.ethtool().cloned(),
            dcb: self.dcb().cloned(),
            nvml: self.nvml().cloned(),
            kernel_log: self.kernel_log().cloned(),
            firewall: self.firewall().cloned(),
        };
        kept.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Answers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let kept = Kept::deserialize(deserializer)?;
        Ok(Answers {
            live: false,
            rdma: kept.rdma.into(),
            holders: kept.holders.into(),
            interfaces: kept.interfaces.into(),
            ethtool: kept.ethtool.into(),
            dcb: kept.dcb.into(),
            nvml: kept.nvml.into(),
            kernel_log: kept.kernel_log.into(),
            firewall: kept.firewall.into(),
        })
    }
}

/// Messages of netlink, whatever they are.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_netlink(bytes: &[u8]) {
    for body in netlink::messages(bytes).map(|message| message.body()).chain([bytes]) {
        netlink::attributes(body).for_each(|(_, value)| drop(netlink::text(value)));
        rdma::fuzz(body);
        cm_id::fuzz(body);
        holders::fuzz(body);
        interface::fuzz(body);
        dcb::fuzz(body);
    }
}

/// A cable's memory, whatever it is.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_cable(bytes: &[u8]) {
    ethtool::eeprom::parse(bytes);
}

/// What programs and the kernel's log say, whatever it is.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_texts(bytes: &[u8]) {
    kernel_log::fuzz(bytes);
    if let Ok(text) = str::from_utf8(bytes) {
        firewall::fuzz(text);
        holders::fuzz_cgroup(text);
    }
}

/// As a snapshot holds them.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    rdma: Option<RdmaSystem>,
    holders: Option<Holders>,
    interfaces: Option<Vec<Interface>>,
    ethtool: Option<BTreeMap<String, Ethtool>>,
    dcb: Option<BTreeMap<String, Dcb>>,
    nvml: Option<Nvml>,
    kernel_log: Option<KernelLog>,
    firewall: Option<Firewall>,
}

const MAX_ASKED: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_forgets_all_but_gpus() {
        let gpus = Nvml { driver: Some("550.90.07".to_owned()), ..Nvml::default() };
        let mut answers = Answers {
            live: true,
            nvml: Some(gpus.clone()).into(),
            rdma: Some(RdmaSystem::default()).into(),
            ..Answers::default()
        };
        answers.renew();
        assert_eq!(answers.nvml(), Some(&gpus), "asked once in a life");
        assert!(answers.rdma.get().is_none(), "asked for anew when it is wanted");
        let mut kept = Answers { rdma: Some(RdmaSystem::default()).into(), ..Answers::default() };
        kept.renew();
        assert!(kept.rdma().is_some(), "of a snapshot there is no other answer");
    }
}
