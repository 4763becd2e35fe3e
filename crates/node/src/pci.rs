//! What devices are plugged into: PCI functions and the links up to the root.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::{Seen, Tree, config_space, product};

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
    /// The host bridge above all of these: `pci0000:3a`.
    pub host_bridge: Option<String>,
    /// Of a virtual function: the physical one.
    pub physical_function: Option<Address>,
    /// Of a physical function: its virtual ones, by number.
    pub virtual_functions: BTreeMap<u32, Address>,
    /// How many virtual functions it could have.
    pub virtual_functions_max: Option<u32>,
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

impl Function {
    /// Whether it is an EFA device, with or without its driver.
    pub fn is_efa(&self) -> bool {
        self.vendor == Seen::Value(AMAZON) && self.device.value().is_some_and(is_efa)
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

/// These functions, everything above them, and the cards of those that are virtual.
pub(crate) fn read_with_hops(tree: &Tree, of: &[Address]) -> BTreeMap<Address, Function> {
    let mut functions = BTreeMap::new();
    let mut left: Vec<Address> = of.to_vec();
    while let Some(address) = left.pop() {
        if functions.contains_key(&address) || functions.len() == MAX {
            continue;
        }
        let Some(function) = read(tree, address) else { continue };
        left.extend(&function.above);
        left.extend(function.physical_function);
        functions.insert(address, function);
    }
    functions
}

/// EFA devices. One that no driver has taken is in no other list.
pub(crate) fn find_efa(tree: &Tree) -> Vec<Address> {
    let names = tree.list("/sys/bus/pci/devices");
    let addresses = names.iter().filter_map(|name| Address::parse(name)).take(MAX);
    let is_efa = |address: &Address| {
        let id = |name: &str| tree.hex(&format!("{}/{name}", address.folder())).and_then(short);
        id("vendor") == Seen::Value(AMAZON) && id("device").value().is_some_and(is_efa)
    };
    addresses.filter(is_efa).collect()
}

/// All generations so far: 0xefa0 to 0xefa3.
fn is_efa(device: &u16) -> bool {
    device & 0xfff0 == 0xefa0
}

fn read(tree: &Tree, address: Address) -> Option<Function> {
    let folder = address.folder();
    let place = tree.real(&folder).into_value()?;
    let number = |name: &str| tree.hex(&format!("{folder}/{name}"));
    let id = |name: &str| number(name).and_then(short);
    let (vendor, device) = (id("vendor"), id("device"));
    let names = product::names(vendor.value().copied(), device.value().copied());
    let config = config_space::read(tree, &format!("{folder}/config"));
    let mut above = addresses_in(&place);
    above.pop();
    above.reverse();
    Some(Function {
        address,
        vendor,
        device,
        subsystem_vendor: id("subsystem_vendor"),
        subsystem_device: id("subsystem_device"),
        class: number("class").and_then(short),
        vendor_name: names.vendor.map(str::to_owned),
        product_name: names.product.map(str::to_owned),
        driver: tree.link_name(&format!("{folder}/driver")).into_value(),
        link: read_link(tree, &folder),
        numa_node: read_numa_node(tree, &folder),
        iommu_group: tree.link_name(&format!("{folder}/iommu_group")).into_value(),
        above,
        host_bridge: host_bridge_in(&place),
        physical_function: read_physical_function(tree, address),
        virtual_functions: read_virtual_functions(tree, address),
        virtual_functions_max: tree.number(&format!("{folder}/sriov_totalvfs")).into_value(),
        max_read_request: config.value().and_then(|config| config_space::max_read_request(config)),
        acs: config.and_then(|config| config_space::acs(&config)),
        errors: read_errors(tree, &folder),
    })
}

fn short<T: TryFrom<u64>>(number: u64) -> Seen<T> {
    T::try_from(number).map_or_else(|_| Seen::odd(&format!("{number:#x}")), Seen::Value)
}

fn read_link(tree: &Tree, folder: &str) -> PciLink {
    let speed = |name: &str| tree.text(&format!("{folder}/{name}")).parse(parse_speed).into_value();
    let width = |name: &str| {
        let width: Option<u32> = tree.number(&format!("{folder}/{name}")).into_value();
        // Functions with no link of their own say 0, some 63 or 255.
        width.filter(|width| (1..=32).contains(width))
    };
    PciLink {
        speed_gts: speed("current_link_speed"),
        width: width("current_link_width"),
        max_speed_gts: speed("max_link_speed"),
        max_width: width("max_link_width"),
    }
}

/// Reads `32.0 GT/s PCIe`, and `8 GT/s` of older kernels.
fn parse_speed(text: &str) -> Option<f64> {
    let (number, _) = text.split_once(" GT/s")?;
    number.parse().ok().filter(|speed| (1.0..=1000.0).contains(speed))
}

/// The NUMA node of what is in this folder; `-1` is none known.
pub(crate) fn read_numa_node(tree: &Tree, folder: &str) -> Option<u32> {
    tree.number(&format!("{folder}/numa_node")).into_value()
}

/// The card of a virtual function.
pub(crate) fn read_physical_function(tree: &Tree, address: Address) -> Option<Address> {
    tree.real(&format!("{}/physfn", address.folder())).into_value().as_deref().and_then(address_in)
}

/// The virtual functions of a card, by number.
pub(crate) fn read_virtual_functions(tree: &Tree, address: Address) -> BTreeMap<u32, Address> {
    let folder = address.folder();
    let count: Seen<u32> = tree.number(&format!("{folder}/sriov_numvfs"));
    if count.value().is_none_or(|count| *count == 0) {
        return BTreeMap::new();
    }
    let numbers = tree.list(&folder).into_iter().filter_map(|name| {
        let number: u32 = name.strip_prefix("virtfn")?.parse().ok()?;
        let function = tree.real(&format!("{folder}/{name}")).into_value()?;
        Some((number, address_in(&function)?))
    });
    numbers.collect()
}

/// Errors that the kernel has counted; kinds with none are left out.
fn read_errors(tree: &Tree, folder: &str) -> Vec<ErrorCount> {
    let severities = ["correctable", "nonfatal", "fatal"].into_iter();
    severities
        .flat_map(|severity| {
            let text = tree.text(&format!("{folder}/aer_dev_{severity}"));
            parse_errors(severity, &text.into_value().unwrap_or_default())
        })
        .collect()
}

/// Reads lines of `RxErr 0`; the totals add nothing.
fn parse_errors(severity: &'static str, text: &str) -> Vec<ErrorCount> {
    let count = |line: &str| {
        let (name, count) = line.trim().rsplit_once(' ')?;
        let count: u64 = count.parse().ok()?;
        let kept = count > 0 && !name.starts_with("TOTAL_") && name.len() <= LONGEST_ERROR;
        kept.then(|| ErrorCount { severity, name: name.trim().to_owned(), count })
    };
    text.lines().filter_map(count).take(MAX_ERRORS).collect()
}

/// The function that a path is of or below: the last one in it.
pub(crate) fn address_in(path: &str) -> Option<Address> {
    path.rsplit('/').find_map(Address::parse)
}

/// Every function on a path, from the root port.
fn addresses_in(path: &str) -> Vec<Address> {
    path.split('/').filter_map(Address::parse).collect()
}

/// The part of a path that names a host bridge; on some machines it is not the first.
fn host_bridge_in(path: &str) -> Option<String> {
    let is_bridge = |name: &&str| {
        let bus = name.strip_prefix("pci").and_then(|bus| bus.split_once(':'));
        bus.is_some_and(|(domain, bus)| domain.len() >= 4 && bus.len() == 2)
    };
    path.split('/').find(is_bridge).map(str::to_owned)
}

/// Amazon's number among makers of PCI devices.
const AMAZON: u16 = 0x1d0f;
/// Functions that are read at most: a large machine has hundreds, with virtual ones thousands.
const MAX: usize = 8192;
/// Kinds of errors of one severity; PCIe has fewer than 32.
const MAX_ERRORS: usize = 64;
const LONGEST_ERROR: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_kernels_write_them() {
        let text = "0000:3b:02.6";
        assert_eq!(Address::parse(text).map(|address| address.to_string()).as_deref(), Some(text));
        assert_eq!(Address::parse("10000:01:00.0").map(|address| address.domain), Some(0x10000));
        for wrong in ["", "3b:00.0", "0000:3b:20.0", "0000:3b:00.8", "0000:3b:00", "pci0000:3a"] {
            assert_eq!(Address::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn speeds_as_kernels_write_them() {
        assert_eq!(parse_speed("32.0 GT/s PCIe"), Some(32.0));
        assert_eq!(parse_speed("8 GT/s"), Some(8.0));
        for wrong in ["Unknown", "Unknown speed", "", "NaN GT/s", "-1 GT/s"] {
            assert_eq!(parse_speed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_path_tells_what_is_above() {
        let path =
            "/sys/devices/LNXSYSTM:00/pci0000:3a/0000:3a:00.0/0000:3b:02.6/infiniband/mlx5_4";
        assert_eq!(address_in(path), Address::parse("0000:3b:02.6"));
        assert_eq!(host_bridge_in(path).as_deref(), Some("pci0000:3a"));
        assert_eq!(addresses_in(path).len(), 2);
    }

    #[test]
    fn errors_that_were_counted_are_kept() {
        let text = "RxErr 3\nBadTLP 0\nReplay Num Rollover 1\nTOTAL_ERR_COR 4\nodd\n";
        let errors = parse_errors("correctable", text);
        let named: Vec<_> = errors.iter().map(|error| (error.name.as_str(), error.count)).collect();
        assert_eq!(named, [("RxErr", 3), ("Replay Num Rollover", 1)]);
    }

    #[test]
    fn what_a_link_carries_is_less_than_its_transfers() {
        let link = PciLink {
            speed_gts: Some(32.0),
            width: Some(8),
            max_speed_gts: Some(5.0),
            max_width: None,
        };
        let (now, most) = link.gbps();
        assert!(now.is_some_and(|gbps| (252.0..252.1).contains(&gbps)), "{now:?}");
        assert_eq!(most, None);
    }
}
