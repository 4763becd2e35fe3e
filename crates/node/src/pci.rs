//! What devices are plugged into: PCI functions and the links up to the root.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::Seen;

/// A PCI address: `0000:3b:00.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Most machines have one: 0.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    /// The slot on the bus.
    pub device: u8,
    /// The function of the device.
    pub function: u8,
}

/// A PCI function.
#[derive(Debug, Clone, Serialize)]
pub struct Function {
    /// Where it is.
    pub address: Address,
    /// Who made it.
    pub vendor: Seen<u16>,
    /// Which model.
    pub device: Seen<u16>,
    /// Who sells it.
    pub subsystem_vendor: Seen<u16>,
    /// As what.
    pub subsystem_device: Seen<u16>,
    /// What it is: `0x020700`.
    pub class: Seen<u32>,
    /// Who made it, in words.
    pub vendor_name: Option<String>,
    /// Which model, in words.
    pub product_name: Option<String>,
    /// Its driver.
    pub driver: Option<String>,
    /// Its link to what is above it.
    pub link: PciLink,
    /// Its NUMA node, if the machine tells.
    pub numa_node: Option<u32>,
    /// The IOMMU's group that it is in.
    pub iommu_group: Option<String>,
    /// What is above it, up to the root port: the nearest first.
    pub above: Vec<Address>,
    /// Of a virtual function: the physical one.
    pub physical_function: Option<Address>,
    /// Of a physical function: its virtual ones, by number.
    pub virtual_functions: BTreeMap<u32, Address>,
    /// How many virtual functions it could have.
    pub virtual_functions_most: Option<u32>,
    /// The most that it asks for in one read, in bytes; from its configuration space.
    pub max_read_request: Option<u32>,
    /// Access control, where configuration space is readable (root) and the function has it.
    pub acs: Seen<Acs>,
    /// Errors that it has reported, by kind.
    pub errors: Vec<ErrorCount>,
}

/// A PCIe link, now and at most at this end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PciLink {
    /// Transfers per second and lane now, in GT/s.
    pub speed_gts: Option<f64>,
    /// Lanes now.
    pub width: Option<u32>,
    /// GT/s at most.
    pub max_speed_gts: Option<f64>,
    /// Lanes at most.
    pub max_width: Option<u32>,
}

/// Access control services: bits that send traffic between devices up to the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "bits of one register, each with its own name")]
pub struct Acs {
    /// A device's own address is checked.
    pub source_validation: bool,
    /// Requests between devices go up to the root.
    pub request_redirect: bool,
    /// Answers between devices go up to the root.
    pub completion_redirect: bool,
    /// Requests are forwarded up.
    pub upstream_forwarding: bool,
}

/// Errors of one kind (AER).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// How bad: `correctable`, `nonfatal`, `fatal`.
    pub severity: &'static str,
    /// The kernel's name of it: `RxErr`.
    pub name: String,
    /// How many.
    pub count: u64,
}

impl Address {
    /// Reads `0000:3b:00.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let hex = |text: &str, most: usize| {
            let good = !text.is_empty()
                && text.len() <= most
                && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            good.then(|| u32::from_str_radix(text, 16).ok())?
        };
        let address = Address {
            domain: hex(domain, 8)?,
            bus: u8::try_from(hex(bus, 2)?).ok()?,
            device: u8::try_from(hex(device, 2)?).ok()?,
            function: u8::try_from(hex(function, 1)?).ok()?,
        };
        (address.device < 32 && address.function < 8).then_some(address)
    }

    /// Where its files are.
    pub fn folder(self) -> String {
        format!("/sys/bus/pci/devices/{self}")
    }
}

impl PciLink {
    /// What it carries, in Gb/s, after the line code; now, and at most.
    pub fn gbps(&self) -> (Option<f64>, Option<f64>) {
        (payload(self.speed_gts, self.width), payload(self.max_speed_gts, self.max_width))
    }
}

/// Up to 5 GT/s a byte takes ten bits, above a block of 128 takes 130 (and flits of PCIe 6 none to speak of).
fn payload(speed_gts: Option<f64>, width: Option<u32>) -> Option<f64> {
    let speed = speed_gts?;
    let code = if speed <= 5.0 { 0.8 } else { 128.0 / 130.0 };
    Some(speed * code * f64::from(width?))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// These functions and everything above them.
pub(crate) fn read_with_hops(_tree: &crate::Tree, _of: &[Address]) -> BTreeMap<Address, Function> {
    BTreeMap::new()
}
