//! What no file tells: answers of netlink, ioctls, NVML and other programs.
//!
//! On a running machine each group is asked for when it is first wanted, and once. In a snapshot they are as
//! they were then; a bare tree has none. Unknown is `None`, never a default.

mod dcb;
mod ethtool;
mod firewall;
mod interface;
mod kernel_log;
mod netlink;
mod nvml;
mod program;
mod rdma;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use dcb::Dcb;
pub use ethtool::{Coalescing, Ethtool, LinkModes, Pause, PluggableModule, Rings};
pub use firewall::Firewall;
pub use interface::{Interface, InterfaceAddress};
pub use kernel_log::{KernelLog, LogKind, LogLine};
pub use nvml::{Nvml, NvmlGpu};
pub use rdma::{RdmaLink, RdmaSystem};

/// What was asked of the kernel and of libraries.
#[derive(Debug, Default)]
pub struct Answers {
    /// Whether what is not known yet can be asked for.
    live: bool,
    rdma: OnceCell<Option<RdmaSystem>>,
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

    /// The RDMA subsystem, by netlink.
    pub fn rdma(&self) -> Option<&RdmaSystem> {
        self.rdma.get_or_init(|| if self.live { rdma::ask() } else { None }).as_ref()
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
        &all[..all.len().min(MOST_ASKED)]
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
    }
}

/// As a snapshot holds them.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    rdma: Option<RdmaSystem>,
    interfaces: Option<Vec<Interface>>,
    ethtool: Option<BTreeMap<String, Ethtool>>,
    dcb: Option<BTreeMap<String, Dcb>>,
    nvml: Option<Nvml>,
    kernel_log: Option<KernelLog>,
    firewall: Option<Firewall>,
}

const MOST_ASKED: usize = 512;
