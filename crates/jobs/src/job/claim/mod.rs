//! What the platform says it gave to this pod: claims, to be checked.
//!
//! Three families tell: the SR-IOV device plugin and the DRA driver by variables, Multus by a file. The shared
//! device plugin, EFA's and the host itself tell nothing; then there is no claim, and what works is taken.

mod dra;
mod multus;
mod plugin;

use std::collections::BTreeMap;
use std::fmt;

use node::{Address, Tree};

/// A device that was given to this pod, as its platform tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    /// Which function it is.
    pub(super) id: DeviceId,
    /// The RDMA device that it is said to have.
    pub(super) rdma_device: Option<String>,
    /// The device node that it is said to have: `uverbs4`.
    pub(super) uverbs: Option<String>,
    /// Whether RDMA was promised; a function for plain packets is given by the same variables.
    pub(super) promises_rdma: bool,
    /// Whether it was given to a driver in user space, so that the kernel has no RDMA device of it.
    pub(super) is_vfio: bool,
    /// The variable or file that says so.
    pub(super) source: String,
}

/// What names a function: its PCI address, or of a subfunction its auxiliary device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DeviceId {
    Pci(Address),
    Auxiliary(String),
}

/// All claims, and what is wrong with them.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) claims: Vec<Claim>,
    /// Read past: something else tells the same.
    pub(super) doubts: Vec<String>,
    /// Nothing can be built on these.
    pub(super) wrong: Vec<String>,
}

/// Everything that the environment and Multus's file claim.
pub(super) fn gather(environment: &BTreeMap<String, String>, tree: &Tree) -> Claims {
    let mut claims = Claims::default();
    plugin::gather(environment, &mut claims);
    dra::gather(environment, &mut claims);
    multus::gather(tree, &mut claims);
    claims
}

impl Claims {
    /// Adds a claim to what others say of the same function. Two that differ cannot both be right.
    fn add(&mut self, claim: Claim) {
        let Some(known) = self.claims.iter_mut().find(|known| known.id == claim.id) else {
            if self.claims.len() < MAX {
                self.claims.push(claim);
            } else if self.claims.len() == MAX {
                self.wrong.push(format!("{}: more than {MAX} devices are claimed", claim.source));
            }
            return;
        };
        let pairs = [
            ("RDMA device", &known.rdma_device, &claim.rdma_device),
            ("device node", &known.uverbs, &claim.uverbs),
        ];
        for (what, one, other) in pairs {
            if let (Some(one), Some(other)) = (one, other)
                && one != other
            {
                self.wrong.push(format!(
                    "{}: {} says that its {what} is {one}, {} says {other}",
                    claim.id, known.source, claim.source
                ));
                return;
            }
        }
        known.rdma_device = known.rdma_device.take().or(claim.rdma_device);
        known.uverbs = known.uverbs.take().or(claim.uverbs);
        known.promises_rdma |= claim.promises_rdma;
        known.is_vfio |= claim.is_vfio;
    }
}

impl Claim {
    fn new(id: DeviceId, source: &str) -> Self {
        Claim {
            id,
            rdma_device: None,
            uverbs: None,
            promises_rdma: false,
            is_vfio: false,
            source: source.to_owned(),
        }
    }

    /// Takes what is said of its RDMA device; an empty word says nothing. Names that no device has are refused,
    /// with a reason that follows the source's name.
    fn with_rdma(mut self, device: Option<String>, uverbs: Option<String>) -> Result<Self, String> {
        let is_said = |word: &String| !word.trim().is_empty();
        let (device, uverbs) = (device.filter(is_said), uverbs.filter(is_said));
        if let Some(name) = device.as_deref().filter(|name| !is_device_name(name)) {
            return Err(format!("names an RDMA device {}", quoted(name)));
        }
        let named = |path: String| {
            node_name(&path).ok_or_else(|| format!("names a device node {}", quoted(&path)))
        };
        let uverbs = uverbs.map(named).transpose()?;
        self.promises_rdma |= device.is_some() || uverbs.is_some();
        self.rdma_device = device;
        self.uverbs = uverbs;
        Ok(self)
    }
}

impl DeviceId {
    /// Reads `0000:3b:02.6` or `mlx5_core.sf.4`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(address) = Address::parse(text) {
            return Some(DeviceId::Pci(address));
        }
        // `driver.kind.number`, as the kernel's auxiliary bus names them.
        let parts: Vec<&str> = text.split('.').collect();
        let word = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let [driver, kind, number] = parts.as_slice() else { return None };
        let good = text.len() <= LONGEST_NAME
            && word(driver)
            && word(kind)
            && number.parse::<u32>().is_ok();
        good.then(|| DeviceId::Auxiliary(text.to_owned()))
    }

    /// Where its files are.
    pub(super) fn folder(&self) -> String {
        match self {
            DeviceId::Pci(address) => address.folder(),
            DeviceId::Auxiliary(name) => format!("/sys/bus/auxiliary/devices/{name}"),
        }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceId::Pci(address) => address.fmt(f),
            DeviceId::Auxiliary(name) => f.write_str(name),
        }
    }
}

/// Whether NCCL's and UCX's lists can hold it: they part names at commas and colons.
pub(super) fn is_device_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(plain)
}

/// Outside text in a message: short, in quotes, nothing that a terminal obeys.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{more}")
}

/// `uverbs4` of `/dev/infiniband/uverbs4`.
fn node_name(path: &str) -> Option<String> {
    let name = path.strip_prefix("/dev/infiniband/")?;
    let number = name.strip_prefix("uverbs")?;
    number.parse::<u32>().ok().map(|_| name.to_owned())
}

/// No pod has more.
const MAX: usize = 256;
/// IB_DEVICE_NAME_MAX.
const LONGEST_NAME: usize = 64;
