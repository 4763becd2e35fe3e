//! PCI functions, and the links up to the root.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::{Reading, Tree, config_space, product};

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
    /// Its address.
    pub address: Address,
    /// The vendor ID.
    pub vendor: Reading<u16>,
    /// The device ID.
    pub device: Reading<u16>,
    /// The subsystem vendor ID.
    pub subsystem_vendor: Reading<u16>,
    /// The subsystem device ID.
    pub subsystem_device: Reading<u16>,
    /// The class: `0x020700`.
    pub class: Reading<u32>,
    /// The name of the vendor.
    pub vendor_name: Option<String>,
    /// The name of the product.
    pub product_name: Option<String>,
    /// Its driver.
    pub driver: Option<String>,
    /// Its upstream link.
    pub link: PciLink,
    /// Its NUMA node, if known.
    pub numa_node: Option<u32>,
    /// Its IOMMU group.
    pub iommu_group: Option<String>,
    /// The bridges above it, up to the root port: the nearest first.
    pub above: Vec<Address>,
    /// The host bridge above these: `pci0000:3a`.
    pub host_bridge: Option<String>,
    /// Of a virtual function: the physical one.
    pub physical_function: Option<Address>,
    /// Of a physical function: its virtual ones, by number.
    pub virtual_functions: BTreeMap<u32, Address>,
    /// The maximum number of virtual functions.
    pub virtual_functions_max: Option<u32>,
    /// The maximum read request size in bytes; from its configuration space.
    pub max_read_request: Option<u32>,
    /// Access control, if the configuration space is readable (root) and the function has it.
    pub acs: Reading<Acs>,
    /// Errors that it has reported (AER).
    pub errors: Vec<ErrorCount>,
}

/// The current and maximum speed and width of a PCIe link, at this end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PciLink {
    /// The current speed per lane, in GT/s.
    pub speed_gts: Option<f64>,
    /// The current number of lanes.
    pub width: Option<u32>,
    /// The maximum speed per lane, in GT/s.
    pub max_speed_gts: Option<f64>,
    /// The maximum number of lanes.
    pub max_width: Option<u32>,
}

/// Access control services: bits that redirect traffic between devices to the root complex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "bits of one register, each with its own name")]
pub struct Acs {
    /// The requester ID of devices is validated.
    pub source_validation: bool,
    /// Requests between devices are redirected to the root complex.
    pub request_redirect: bool,
    /// Completions between devices are redirected to the root complex.
    pub completion_redirect: bool,
    /// Requests are forwarded upstream.
    pub upstream_forwarding: bool,
}

/// Errors of one kind (AER).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// `correctable`, `nonfatal`, `fatal`.
    pub severity: &'static str,
    /// The kernel's name: `RxErr`.
    pub name: String,
    /// The number of errors.
    pub count: u64,
}

impl Address {
    /// Parses `0000:3b:00.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let hex = |text: &str, max_digits: usize| {
            let good = !text.is_empty()
                && text.len() <= max_digits
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

    /// The folder of its files.
    pub fn folder(self) -> String {
        format!("/sys/bus/pci/devices/{self}")
    }
}

impl Function {
    /// Whether it is an EFA device, with or without a driver.
    pub fn is_efa(&self) -> bool {
        self.vendor == Reading::Value(AMAZON) && self.device.value().is_some_and(is_efa)
    }
}

impl PciLink {
    /// The current and maximum rate of data in Gb/s: less than of bits, by the line coding (8b/10b, 128b/130b).
    pub fn gbps(&self) -> (Option<f64>, Option<f64>) {
        (data_rate(self.speed_gts, self.width), data_rate(self.max_speed_gts, self.max_width))
    }
}

/// Up to 5 GT/s the coding is 8b/10b, above 128b/130b (the overhead of PCIe 6 flits is negligible).
fn data_rate(speed_gts: Option<f64>, width: Option<u32>) -> Option<f64> {
    let speed = speed_gts?;
    let coding = if speed <= 5.0 { 0.8 } else { 128.0 / 130.0 };
    Some(speed * coding * f64::from(width?))
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

/// Reads these functions, the bridges above them, and the physical functions of virtual ones.
pub(crate) fn read_with_hops(tree: &Tree, leaves: &[Address]) -> BTreeMap<Address, Function> {
    let mut functions = BTreeMap::new();
    let mut left: Vec<Address> = leaves.to_vec();
    while let Some(address) = left.pop() {
        if functions.contains_key(&address) || functions.len() == MAX_FUNCTIONS {
            continue;
        }
        let Some(function) = read(tree, address) else { continue };
        left.extend(&function.above);
        left.extend(function.physical_function);
        functions.insert(address, function);
    }
    functions
}

/// EFA devices. Those without a driver are in no other list.
pub(crate) fn find_efa(tree: &Tree) -> Vec<Address> {
    let names = tree.list("/sys/bus/pci/devices");
    let addresses = names.iter().filter_map(|name| Address::parse(name)).take(MAX_FUNCTIONS);
    let is_efa = |address: &Address| {
        let id = |name: &str| tree.hex(&format!("{}/{name}", address.folder())).and_then(short);
        id("vendor") == Reading::Value(AMAZON) && id("device").value().is_some_and(is_efa)
    };
    addresses.filter(is_efa).collect()
}

/// All generations so far: 0xefa0 to 0xefa3.
fn is_efa(device: &u16) -> bool {
    device & 0xfff0 == 0xefa0
}

fn read(tree: &Tree, address: Address) -> Option<Function> {
    let folder = address.folder();
    let real = tree.real(&folder).into_value()?;
    let number = |name: &str| tree.hex(&format!("{folder}/{name}"));
    let id = |name: &str| number(name).and_then(short);
    let (vendor, device) = (id("vendor"), id("device"));
    let names = product::names(vendor.value().copied(), device.value().copied());
    let config = config_space::read(tree, &format!("{folder}/config"));
    let mut above = addresses_in(&real);
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
        host_bridge: host_bridge_in(&real),
        physical_function: read_physical_function(tree, address),
        virtual_functions: read_virtual_functions(tree, address),
        virtual_functions_max: tree.number(&format!("{folder}/sriov_totalvfs")).into_value(),
        max_read_request: config.value().and_then(|config| config_space::max_read_request(config)),
        acs: config.and_then(|config| config_space::acs(&config)),
        errors: read_errors(tree, &folder),
    })
}

fn short<T: TryFrom<u64>>(number: u64) -> Reading<T> {
    T::try_from(number).map_or_else(|_| Reading::invalid(&format!("{number:#x}")), Reading::Value)
}

fn read_link(tree: &Tree, folder: &str) -> PciLink {
    let speed = |name: &str| tree.text(&format!("{folder}/{name}")).parse(parse_speed).into_value();
    let width = |name: &str| {
        let width: Option<u32> = tree.number(&format!("{folder}/{name}")).into_value();
        // Functions without a link of their own report 0, some 63 or 255.
        width.filter(|width| (1..=32).contains(width))
    };
    PciLink {
        speed_gts: speed("current_link_speed"),
        width: width("current_link_width"),
        max_speed_gts: speed("max_link_speed"),
        max_width: width("max_link_width"),
    }
}

/// Parses `32.0 GT/s PCIe`, and `8 GT/s` of older kernels.
fn parse_speed(text: &str) -> Option<f64> {
    let (number, _) = text.split_once(" GT/s")?;
    number.parse().ok().filter(|speed| (1.0..=1000.0).contains(speed))
}

/// The NUMA node of the device in this folder; `-1` is unknown.
pub(crate) fn read_numa_node(tree: &Tree, folder: &str) -> Option<u32> {
    tree.number(&format!("{folder}/numa_node")).into_value()
}

/// The physical function of a virtual one.
pub(crate) fn read_physical_function(tree: &Tree, address: Address) -> Option<Address> {
    tree.real(&format!("{}/physfn", address.folder())).into_value().as_deref().and_then(address_in)
}

/// The virtual functions of a physical one, by number.
pub(crate) fn read_virtual_functions(tree: &Tree, address: Address) -> BTreeMap<u32, Address> {
    let folder = address.folder();
    let count: Reading<u32> = tree.number(&format!("{folder}/sriov_numvfs"));
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

/// Errors that the kernel has counted, without kinds that have none.
fn read_errors(tree: &Tree, folder: &str) -> Vec<ErrorCount> {
    let severities = ["correctable", "nonfatal", "fatal"].into_iter();
    severities
        .flat_map(|severity| {
            let text = tree.text(&format!("{folder}/aer_dev_{severity}"));
            parse_errors(severity, &text.into_value().unwrap_or_default())
        })
        .collect()
}

/// Parses lines such as `RxErr 0`, without totals.
fn parse_errors(severity: &'static str, text: &str) -> Vec<ErrorCount> {
    let count = |line: &str| {
        let (name, count) = line.trim().rsplit_once(' ')?;
        let count: u64 = count.parse().ok()?;
        let kept = count > 0 && !name.starts_with("TOTAL_") && name.len() <= MAX_ERROR_NAME_BYTES;
        kept.then(|| ErrorCount { severity, name: name.trim().to_owned(), count })
    };
    text.lines().filter_map(count).take(MAX_ERRORS).collect()
}

/// The last function in a path.
pub(crate) fn address_in(path: &str) -> Option<Address> {
    path.rsplit('/').find_map(Address::parse)
}

/// Every function on a path, from the root port.
fn addresses_in(path: &str) -> Vec<Address> {
    path.split('/').filter_map(Address::parse).collect()
}

/// The host bridge in a path; on some machines it is not the first part.
fn host_bridge_in(path: &str) -> Option<String> {
    let is_bridge = |name: &&str| {
        let bus = name.strip_prefix("pci").and_then(|bus| bus.split_once(':'));
        bus.is_some_and(|(domain, bus)| domain.len() >= 4 && bus.len() == 2)
    };
    path.split('/').find(is_bridge).map(str::to_owned)
}

/// Amazon's PCI vendor ID.
const AMAZON: u16 = 0x1d0f;
/// More are not read: a large machine has hundreds, with virtual ones thousands.
const MAX_FUNCTIONS: usize = 8192;
/// Kinds of errors of one severity; PCIe has fewer than 32.
const MAX_ERRORS: usize = 64;
const MAX_ERROR_NAME_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_formatted() {
        let text = "0000:3b:02.6";
        assert_eq!(Address::parse(text).map(|address| address.to_string()).as_deref(), Some(text));
        assert_eq!(Address::parse("10000:01:00.0").map(|address| address.domain), Some(0x10000));
        for wrong in ["", "3b:00.0", "0000:3b:20.0", "0000:3b:00.8", "0000:3b:00", "pci0000:3a"] {
            assert_eq!(Address::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn speeds_are_parsed() {
        assert_eq!(parse_speed("32.0 GT/s PCIe"), Some(32.0));
        assert_eq!(parse_speed("8 GT/s"), Some(8.0));
        for wrong in ["Unknown", "Unknown speed", "", "NaN GT/s", "-1 GT/s"] {
            assert_eq!(parse_speed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bridges_are_found_in_a_path() {
        let path =
            "/sys/devices/LNXSYSTM:00/pci0000:3a/0000:3a:00.0/0000:3b:02.6/infiniband/mlx5_4";
        assert_eq!(address_in(path), Address::parse("0000:3b:02.6"));
        assert_eq!(host_bridge_in(path).as_deref(), Some("pci0000:3a"));
        assert_eq!(addresses_in(path).len(), 2);
    }

    #[test]
    fn counted_errors_are_parsed() {
        let text = "RxErr 3\nBadTLP 0\nReplay Num Rollover 1\nTOTAL_ERR_COR 4\nodd\n";
        let errors = parse_errors("correctable", text);
        let named: Vec<_> = errors.iter().map(|error| (error.name.as_str(), error.count)).collect();
        assert_eq!(named, [("RxErr", 3), ("Replay Num Rollover", 1)]);
    }

    #[test]
    fn the_data_rate_of_a_link_excludes_line_coding() {
        let link = PciLink {
            speed_gts: Some(32.0),
            width: Some(8),
            max_speed_gts: Some(5.0),
            max_width: None,
        };
        let (now, max) = link.gbps();
        assert!(now.is_some_and(|gbps| (252.0..252.1).contains(&gbps)), "{now:?}");
        assert_eq!(max, None);
    }
}
