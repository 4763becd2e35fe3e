//! The machine itself.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Seen;

/// The machine: what runs on what.
#[derive(Debug, Clone, Serialize)]
pub struct Host {
    /// Its name.
    pub name: Seen<String>,
    /// The kernel's version.
    pub kernel: Seen<String>,
    /// `ID` and `VERSION_ID` of os-release: `debian 12`.
    pub system: Option<String>,
    /// `x86_64`, `aarch64`; of another machine's tree unknown unless a file tells.
    pub architecture: Option<String>,
    /// Maker and model of the machine (DMI).
    pub product: Option<String>,
    /// Words of the kernel's command line that matter to the fabric; no others are kept.
    pub kernel_arguments: Vec<String>,
    /// Seconds since the machine started.
    pub uptime_s: Option<u64>,
    /// Its processors.
    pub cpus: Cpus,
    /// Its NUMA nodes.
    pub numa_nodes: Vec<NumaNode>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Large pages of each size.
    pub huge_pages: Vec<HugePages>,
    /// The signs of a container, if this is one: `kubernetes`, `docker`.
    pub container: Option<String>,
}

/// The processors.
#[derive(Debug, Clone, Serialize)]
pub struct Cpus {
    /// How many are online.
    pub online: Option<u32>,
    /// The model's name.
    pub model: Option<String>,
    /// Who made them, as /proc/cpuinfo has it: `GenuineIntel`, `AuthenticAMD`.
    pub vendor: Option<String>,
    /// How many run under each governor; empty where there is no cpufreq.
    pub governors: Vec<Governor>,
    /// The idle states that are on, and how long each takes to leave, in microseconds.
    pub idle_states: BTreeMap<String, u32>,
}

/// A frequency governor and how many processors it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Governor {
    /// `performance`, `powersave`.
    pub name: String,
    /// How many.
    pub cpus: u32,
}

/// A NUMA node.
#[derive(Debug, Clone, Serialize)]
pub struct NumaNode {
    /// Its number.
    pub number: u32,
    /// Its processors: `0-15,32-47`.
    pub cpus: Seen<String>,
    /// Bytes of its memory.
    pub memory_bytes: Option<u64>,
    /// How far each node is, by the kernel's measure (10: itself).
    pub distances: Vec<u32>,
}

/// Large pages of one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// Bytes of one page.
    pub size_bytes: u64,
    /// How many there are.
    pub total: Seen<u64>,
    /// How many nobody uses.
    pub free: Seen<u64>,
}

/// The machine.
pub(crate) fn read(_tree: &crate::Tree) -> Host {
    let cpus = Cpus {
        online: None,
        model: None,
        vendor: None,
        governors: Vec::new(),
        idle_states: BTreeMap::new(),
    };
    Host {
        name: Seen::Absent,
        kernel: Seen::Absent,
        system: None,
        architecture: None,
        product: None,
        kernel_arguments: Vec::new(),
        uptime_s: None,
        cpus,
        numa_nodes: Vec::new(),
        memory_bytes: None,
        huge_pages: Vec::new(),
        container: None,
    }
}
