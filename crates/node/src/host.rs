//! The machine itself.

mod cpus;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Reading, Tree};
pub use cpus::cpu_list;

/// Hardware and operating system of the machine.
#[derive(Debug, Clone, Serialize)]
pub struct Host {
    /// Its name.
    pub name: Reading<String>,
    /// The kernel's version.
    pub kernel: Reading<String>,
    /// `ID` and `VERSION_ID` of os-release: `debian 12`.
    pub system: Option<String>,
    /// `x86_64`, `aarch64`; in a snapshot only if a file has it.
    pub architecture: Option<String>,
    /// Vendor and model of the machine (DMI).
    pub product: Option<String>,
    /// Kernel arguments that are relevant for the fabric; others are not stored.
    pub kernel_arguments: Vec<String>,
    /// Seconds since boot.
    pub uptime_s: Option<u64>,
    /// Its CPUs.
    pub cpus: Cpus,
    /// Its NUMA nodes.
    pub numa_nodes: Vec<NumaNode>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Huge pages of each size.
    pub huge_pages: Vec<HugePages>,
    /// The kind of container, if this is one: `kubernetes`, `docker`.
    pub container: Option<String>,
}

/// The CPUs.
#[derive(Debug, Clone, Serialize)]
pub struct Cpus {
    /// The number of CPUs online.
    pub online: Option<u32>,
    /// The model's name.
    pub model: Option<String>,
    /// Their vendor, as in /proc/cpuinfo: `GenuineIntel`, `AuthenticAMD`.
    pub vendor: Option<String>,
    /// The number of CPUs with each governor; empty without cpufreq.
    pub governors: Vec<Governor>,
    /// The enabled idle states and their exit latencies in microseconds.
    pub idle_states: BTreeMap<String, u32>,
}

/// A frequency governor and its number of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Governor {
    /// `performance`, `powersave`.
    pub name: String,
    /// The number of CPUs.
    pub cpus: u32,
}

/// A NUMA node.
#[derive(Debug, Clone, Serialize)]
pub struct NumaNode {
    /// Its number.
    pub number: u32,
    /// Its CPUs: `0-15,32-47`.
    pub cpus: Reading<String>,
    /// Bytes of its memory.
    pub memory_bytes: Option<u64>,
    /// The distance to each node, in the kernel's unit (10: itself).
    pub distances: Vec<u32>,
}

/// Huge pages of one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// Bytes of one page.
    pub size_bytes: u64,
    /// The number of pages.
    pub total: Reading<u64>,
    /// The number of free pages.
    pub free: Reading<u64>,
}

/// The machine.
pub(crate) fn read(tree: &Tree) -> Host {
    Host {
        name: first(tree, &["/proc/sys/kernel/hostname", "/etc/hostname"]).one_line(),
        kernel: tree.text("/proc/sys/kernel/osrelease").one_line(),
        system: system(tree),
        architecture: architecture(tree),
        product: product(tree),
        kernel_arguments: kernel_arguments(tree),
        uptime_s: uptime(tree),
        cpus: cpus::read(tree),
        numa_nodes: numa_nodes(tree),
        memory_bytes: kilobytes(tree, "/proc/meminfo", "MemTotal:"),
        huge_pages: huge_pages(tree),
        container: container(tree),
    }
}

/// The number of CPUs online.
pub(crate) fn online_cpus(tree: &Tree) -> Option<u32> {
    cpus::online(tree).map(|online| online.len() as u32)
}

/// The first of several files that exists.
fn first(tree: &Tree, paths: &[&str]) -> Reading<String> {
    let texts = paths.iter().map(|path| tree.text(path));
    texts.into_iter().find(|text| !text.is_absent()).unwrap_or(Reading::Absent)
}

fn system(tree: &Tree) -> Option<String> {
    let text = first(tree, &["/etc/os-release", "/usr/lib/os-release"]).into_value()?;
    let value = |name: &str| {
        let setting = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(setting.trim().trim_matches(['"', '\'']).to_owned())
    };
    let id = value("ID")?;
    Some(value("VERSION_ID").map_or(id.clone(), |version| format!("{id} {version}")))
}

/// Before Linux 6.1 there is no file for it; it then follows from the field names of /proc/cpuinfo.
fn architecture(tree: &Tree) -> Option<String> {
    if let Reading::Value(architecture) = tree.text("/proc/sys/kernel/arch").one_line() {
        return Some(architecture);
    }
    let cpu = tree.text("/proc/cpuinfo").into_value()?;
    let names: Vec<&str> =
        cpu.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    let known = [("vendor_id", "x86_64"), ("CPU implementer", "aarch64"), ("hart", "riscv64")];
    let found = known.into_iter().find(|(name, _)| names.contains(name));
    found.map(|(_, architecture)| architecture.to_owned())
}

/// Machines without DMI have a device tree.
fn product(tree: &Tree) -> Option<String> {
    let dmi = |name: &str| tree.text(&format!("/sys/class/dmi/id/{name}")).one_line().into_value();
    let words: Vec<String> = ["sys_vendor", "product_name"].into_iter().filter_map(dmi).collect();
    if !words.is_empty() {
        return Some(words.join(" "));
    }
    let model = tree.text("/sys/firmware/devicetree/base/model");
    model.map(|model| model.trim_end_matches('\0').to_owned()).one_line().into_value()
}

/// The tree contains only relevant arguments.
fn kernel_arguments(tree: &Tree) -> Vec<String> {
    let line = tree.text("/proc/cmdline").into_value().unwrap_or_default();
    line.split_whitespace().map(str::to_owned).collect()
}

fn uptime(tree: &Tree) -> Option<u64> {
    tree.text("/proc/uptime").into_value()?.split('.').next()?.parse().ok()
}

/// The bytes of a line such as `MemTotal:  131072 kB`, with or without a prefix.
fn kilobytes(tree: &Tree, path: &str, name: &str) -> Option<u64> {
    let text = tree.text(path).into_value()?;
    let rest = text.lines().find_map(|line| Some(line.split_once(name)?.1))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn numa_nodes(tree: &Tree) -> Vec<NumaNode> {
    const FOLDER: &str = "/sys/devices/system/node";
    let numbers = tree.list(FOLDER).into_iter();
    let node = |number: u32| {
        let folder = format!("{FOLDER}/node{number}");
        let distances = tree.text(&format!("{folder}/distance")).into_value().unwrap_or_default();
        NumaNode {
            number,
            cpus: tree.text(&format!("{folder}/cpulist")),
            memory_bytes: kilobytes(tree, &format!("{folder}/meminfo"), "MemTotal:"),
            distances: distances.split_whitespace().map_while(|word| word.parse().ok()).collect(),
        }
    };
    numbers.filter_map(|name| name.strip_prefix("node")?.parse().ok()).map(node).collect()
}

fn huge_pages(tree: &Tree) -> Vec<HugePages> {
    const FOLDER: &str = "/sys/kernel/mm/hugepages";
    let pages = |name: String| {
        let size: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        Some(HugePages {
            size_bytes: size.checked_mul(1024)?,
            total: tree.number(&format!("{FOLDER}/{name}/nr_hugepages")),
            free: tree.number(&format!("{FOLDER}/{name}/free_hugepages")),
        })
    };
    let mut all: Vec<HugePages> = tree.list(FOLDER).into_iter().filter_map(pages).collect();
    all.sort_by_key(|pages| pages.size_bytes);
    all
}

/// By files of container runtimes; no secret is read.
fn container(tree: &Tree) -> Option<String> {
    let signs = [
        ("/var/run/secrets/kubernetes.io", "kubernetes"),
        ("/run/secrets/kubernetes.io", "kubernetes"),
        ("/.dockerenv", "docker"),
        ("/run/.containerenv", "podman"),
    ];
    if let Some((_, name)) = signs.into_iter().find(|(path, _)| tree.exists(path)) {
        return Some(name.to_owned());
    }
    let cgroup = tree.text("/proc/1/cgroup").into_value()?;
    let names = [("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman")];
    let found = names.into_iter().find(|(sign, _)| cgroup.contains(sign));
    found.map(|(_, name)| name.to_owned())
}
