//! Processes with RDMA resources, from the kernel's resource tracking (netlink, RDMA_NL_NLDEV).
//!
//! Only the number of each kind is stored: no queue pair numbers, keys or addresses.

mod process;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::netlink::{self, Socket, Want};
use super::rdma;

/// Processes with RDMA resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessResourcesList {
    /// By device, then by process.
    pub list: Vec<ProcessResources>,
    /// Why the list is incomplete, if it is.
    pub why: Option<String>,
}

/// A process and its resources of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessResources {
    /// The RDMA device.
    pub device: String,
    /// The process; 0 if it is the kernel, or not visible in this namespace.
    pub pid: u32,
    /// The name of the process or kernel module.
    pub command: Option<String>,
    /// The UID of its pod.
    pub pod: Option<String>,
    /// The ID of its container.
    pub container: Option<String>,
    /// The number of each kind: `qp`, `cq`, `mr`, `pd`, `cm_id`, `ctx`, `srq`.
    pub resources: BTreeMap<String, u64>,
    /// Bytes of registered memory.
    pub registered_bytes: Option<u64>,
}

/// `None` if the kernel has no RDMA or does not answer.
pub(crate) fn query() -> Option<ProcessResourcesList> {
    let deadline = Instant::now() + TIMEOUT;
    let devices = rdma::devices(&mut Socket::rdma().ok()?)?;
    let mut tally = Tally::default();
    let why = devices.iter().filter_map(|device| tally.query(device, deadline)).last();
    let total = tally.0.len();
    let incomplete = || format!("only {MAX_PROCESSES} of {total} processes are listed");
    let list = tally.0.into_iter().take(MAX_PROCESSES);
    let list = list.map(|(owner, resources)| process_of(owner, resources)).collect();
    Some(ProcessResourcesList { list, why: (total > MAX_PROCESSES).then(incomplete).or(why) })
}

/// Parses any bytes.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz(body: &[u8]) {
    let mut tally = Tally::default();
    KINDS.iter().for_each(|kind| tally.add("a", kind, body));
    for (owner, resources) in tally.0 {
        assert!(resources.counts.values().all(|count| *count > 0), "{}", owner.device);
    }
}

/// Parses any text as `/proc/PID/cgroup`.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz_cgroup(text: &str) {
    let workload = process::workload(text);
    assert!(workload.container.is_none_or(|id| id.len() == 64));
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    device: String,
    pid: u32,
    module: Option<String>,
}

#[derive(Debug, Default)]
struct Resources {
    counts: BTreeMap<&'static str, u64>,
    registered_bytes: Option<u64>,
}

#[derive(Debug, Default)]
struct Tally(BTreeMap<Owner, Resources>);

impl Tally {
    /// Queries every kind, and returns why something is missing. Kinds that the kernel does not know are skipped.
    fn query(&mut self, device: &rdma::Device, deadline: Instant) -> Option<String> {
        let index = netlink::attribute(rdma::DEVICE_INDEX, &device.index.to_ne_bytes());
        let mut why = None;
        for kind in KINDS {
            // A new socket each time: after a timeout, the rest of the old answer would come first.
            let answer = match Socket::rdma() {
                _ if Instant::now() > deadline => Err(Errno::TIMEDOUT),
                Ok(mut socket) => socket.query(rdma::kind(kind.command), Want::All, &index),
                Err(errno) => Err(errno),
            };
            match answer {
                Ok(bodies) => bodies.iter().for_each(|body| self.add(&device.name, kind, body)),
                Err(Errno::INVAL | Errno::OPNOTSUPP) => {}
                Err(errno) => why = Some(format!("{} of {}: {errno}", kind.name, device.name)),
            }
        }
        why
    }

    /// One message: a table of entries, each with its owner.
    fn add(&mut self, device: &str, kind: &ResourceKind, body: &[u8]) {
        let table = netlink::find(body, kind.table).unwrap_or_default();
        for (_, entry) in netlink::attributes(table) {
            let owner = Owner {
                device: device.to_owned(),
                pid: netlink::find(entry, PID).and_then(netlink::number).unwrap_or(0),
                module: netlink::find(entry, KERNEL_NAME).and_then(netlink::text),
            };
            let resources = self.0.entry(owner).or_default();
            *resources.counts.entry(kind.name).or_default() += 1;
            if let Some(length) = netlink::find(entry, REGION_LENGTH).and_then(netlink::long) {
                let registered = resources.registered_bytes.unwrap_or(0);
                resources.registered_bytes = Some(registered.saturating_add(length));
            }
        }
    }
}

fn process_of(owner: Owner, resources: Resources) -> ProcessResources {
    let process = match owner.pid {
        0 => process::Process::default(),
        pid => process::read(pid),
    };
    ProcessResources {
        device: owner.device,
        pid: owner.pid,
        command: owner.module.or(process.command),
        pod: process.workload.pod,
        container: process.workload.container,
        resources: resources.counts.into_iter().map(|(kind, n)| (kind.to_owned(), n)).collect(),
        registered_bytes: resources.registered_bytes,
    }
}

/// A kind of resource: its name, the command to list all of them, and the table of the answer.
struct ResourceKind {
    name: &'static str,
    command: u16,
    table: u16,
}

/// Older kernels do not know the last two.
const KINDS: &[ResourceKind] = &[
    ResourceKind { name: "qp", command: 10, table: 19 },
    ResourceKind { name: "cm_id", command: 11, table: 30 },
    ResourceKind { name: "cq", command: 12, table: 35 },
    ResourceKind { name: "mr", command: 13, table: 40 },
    ResourceKind { name: "pd", command: 14, table: 46 },
    ResourceKind { name: "ctx", command: 22, table: 86 },
    ResourceKind { name: "srq", command: 23, table: 88 },
];

const PID: u16 = 28;
const KERNEL_NAME: u16 = 29;
const REGION_LENGTH: u16 = 45;

/// For all devices together. A query for one kind of one device has its own timeout in `netlink`.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Further ones are not listed.
const MAX_PROCESSES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::netlink::attribute;

    fn table(kind: u16, entries: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let entry = |parts: &Vec<Vec<u8>>| attribute(kind + 1, &parts.concat());
        let entries: Vec<u8> = entries.iter().flat_map(entry).collect();
        [attribute(1, &[0; 4]), attribute(2, b"mlx5_0\0"), attribute(kind, &entries)].concat()
    }

    fn pid(pid: u32) -> Vec<u8> {
        attribute(PID, &pid.to_ne_bytes())
    }

    fn length(bytes: u64) -> Vec<u8> {
        attribute(REGION_LENGTH, &bytes.to_ne_bytes())
    }

    #[test]
    fn processes_and_kernel_modules_are_counted_separately() {
        let qps = table(
            19,
            &[
                vec![attribute(21, &[7, 0, 0, 0]), pid(u32::MAX)],
                vec![attribute(21, &[8, 0, 0, 0]), pid(u32::MAX)],
                vec![attribute(21, &[1, 0, 0, 0]), attribute(KERNEL_NAME, b"ib_core\0")],
                vec![attribute(21, &[9, 0, 0, 0])],
            ],
        );
        let regions =
            table(40, &[vec![length(4096), pid(u32::MAX)], vec![length(1 << 40), pid(u32::MAX)]]);
        let mut tally = Tally::default();
        tally.add("mlx5_0", &KINDS[0], &qps);
        tally.add("mlx5_0", &KINDS[3], &regions);
        let list: Vec<ProcessResources> =
            tally.0.into_iter().map(|(owner, resources)| process_of(owner, resources)).collect();
        let [gone, kernel, process] = &list[..] else { panic!("{list:?}") };
        assert_eq!((gone.pid, gone.command.as_deref(), gone.resources["qp"]), (0, None, 1));
        assert_eq!((kernel.pid, kernel.command.as_deref()), (0, Some("ib_core")));
        assert_eq!((process.resources["qp"], process.resources["mr"]), (2, 2));
        assert_eq!(process.registered_bytes, Some(4096 + (1 << 40)));
        assert_eq!(kernel.registered_bytes, None, "none is not zero bytes");
    }

    #[test]
    fn a_kernel_with_no_rdma_gives_no_answer_or_an_empty_one() {
        assert!(
            query().is_none_or(|process_resources| process_resources.list.len() <= MAX_PROCESSES)
        );
    }
}
