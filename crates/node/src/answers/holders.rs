//! Processes that hold RDMA resources, by the kernel's resource tracking (netlink, RDMA_NL_NLDEV).
//!
//! Only how many is kept, of each kind: no number of a queue pair, no key, no address.

mod process;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::netlink::{self, Socket, Want};
use super::rdma;

/// Those who hold RDMA resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holders {
    /// By device, then by process.
    pub list: Vec<Holder>,
    /// Why it is not all, if it is not.
    pub why: Option<String>,
}

/// A process, and how much of a device it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holder {
    /// The RDMA device.
    pub device: String,
    /// The process; 0 where the kernel itself is the holder, or it cannot be seen from here.
    pub pid: u32,
    /// The process's name, or the kernel module's.
    pub command: Option<String>,
    /// The pod's UID, of a process in one.
    pub pod: Option<String>,
    /// The container's id, of a process in one.
    pub container: Option<String>,
    /// How many of each kind: `qp`, `cq`, `mr`, `pd`, `cm_id`, `ctx`, `srq`.
    pub resources: BTreeMap<String, u64>,
    /// Bytes of memory that it has registered.
    pub registered_bytes: Option<u64>,
}

/// Nothing, where the kernel has no RDMA or does not tell.
pub(crate) fn ask() -> Option<Holders> {
    let until = Instant::now() + PATIENCE;
    let devices = rdma::devices(&mut Socket::rdma().ok()?)?;
    let mut tally = Tally::default();
    let why = devices.iter().filter_map(|device| tally.ask(device, until)).last();
    let crowd = tally.0.len();
    let crowded = || format!("{crowd} hold something, and only {MAX_HOLDERS} are told");
    let list = tally.0.into_iter().take(MAX_HOLDERS).map(|(who, holds)| holder(who, holds));
    Some(Holders { list: list.collect(), why: (crowd > MAX_HOLDERS).then(crowded).or(why) })
}

/// Whatever the bytes are.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz(body: &[u8]) {
    let mut tally = Tally::default();
    KINDS.iter().for_each(|kind| tally.add("a", kind, body));
    for (who, holds) in tally.0 {
        assert!(holds.resources.values().all(|count| *count > 0), "{}", who.device);
    }
}

/// What `/proc/PID/cgroup` holds, whatever it is.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz_cgroup(text: &str) {
    let workload = process::workload(text);
    assert!(workload.container.is_none_or(|id| id.len() == 64));
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Who {
    device: String,
    pid: u32,
    module: Option<String>,
}

#[derive(Debug, Default)]
struct Holds {
    resources: BTreeMap<&'static str, u64>,
    registered: Option<u64>,
}

#[derive(Debug, Default)]
struct Tally(BTreeMap<Who, Holds>);

impl Tally {
    /// Asks for every kind, and gives why something is missing. A kind that the kernel does not know is none.
    fn ask(&mut self, device: &rdma::Device, until: Instant) -> Option<String> {
        let index = netlink::attribute(rdma::DEVICE_INDEX, &device.index.to_ne_bytes());
        let mut why = None;
        for kind in KINDS {
            // A socket of its own: one that was given up in the middle of an answer gives the rest of it first.
            let asked = match Socket::rdma() {
                _ if Instant::now() > until => Err(Errno::TIMEDOUT),
                Ok(mut socket) => socket.ask(rdma::kind(kind.command), Want::All, &index),
                Err(errno) => Err(errno),
            };
            match asked {
                Ok(bodies) => bodies.iter().for_each(|body| self.add(&device.name, kind, body)),
                Err(Errno::INVAL | Errno::OPNOTSUPP) => {}
                Err(errno) => why = Some(format!("{} of {}: {errno}", kind.name, device.name)),
            }
        }
        why
    }

    /// One message: a table of entries, each with who holds it.
    fn add(&mut self, device: &str, kind: &Kind, body: &[u8]) {
        let table = netlink::find(body, kind.table).unwrap_or_default();
        for (_, entry) in netlink::attributes(table) {
            let who = Who {
                device: device.to_owned(),
                pid: netlink::find(entry, PID).and_then(netlink::number).unwrap_or(0),
                module: netlink::find(entry, KERNEL_NAME).and_then(netlink::text),
            };
            let holds = self.0.entry(who).or_default();
            *holds.resources.entry(kind.name).or_default() += 1;
            if let Some(length) = netlink::find(entry, REGION_LENGTH).and_then(netlink::long) {
                holds.registered = Some(holds.registered.unwrap_or(0).saturating_add(length));
            }
        }
    }
}

fn holder(who: Who, holds: Holds) -> Holder {
    let process = if who.pid == 0 { process::Process::default() } else { process::read(who.pid) };
    Holder {
        device: who.device,
        pid: who.pid,
        command: who.module.or(process.command),
        pod: process.workload.pod,
        container: process.workload.container,
        resources: holds.resources.into_iter().map(|(kind, n)| (kind.to_owned(), n)).collect(),
        registered_bytes: holds.registered,
    }
}

/// A kind of resource: what it is called, the command that asks for all of them, and the table of the answer.
struct Kind {
    name: &'static str,
    command: u16,
    table: u16,
}

/// Older kernels do not know the last two.
const KINDS: &[Kind] = &[
    Kind { name: "qp", command: 10, table: 19 },
    Kind { name: "cm_id", command: 11, table: 30 },
    Kind { name: "cq", command: 12, table: 35 },
    Kind { name: "mr", command: 13, table: 40 },
    Kind { name: "pd", command: 14, table: 46 },
    Kind { name: "ctx", command: 22, table: 86 },
    Kind { name: "srq", command: 23, table: 88 },
];

const PID: u16 = 28;
const KERNEL_NAME: u16 = 29;
const REGION_LENGTH: u16 = 45;

/// All devices together. A kind of one device has its own limit in `netlink`.
const PATIENCE: Duration = Duration::from_secs(4);
/// Of a machine with more, only so many are read.
const MAX_HOLDERS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::netlink::attribute;

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
    fn processes_and_kernel_modules_are_counted_apart() {
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
        let list: Vec<Holder> =
            tally.0.into_iter().map(|(who, holds)| holder(who, holds)).collect();
        let [gone, kernel, process] = &list[..] else { panic!("{list:?}") };
        assert_eq!((gone.pid, gone.command.as_deref(), gone.resources["qp"]), (0, None, 1));
        assert_eq!((kernel.pid, kernel.command.as_deref()), (0, Some("ib_core")));
        assert_eq!((process.resources["qp"], process.resources["mr"]), (2, 2));
        assert_eq!(process.registered_bytes, Some(4096 + (1 << 40)));
        assert_eq!(kernel.registered_bytes, None, "it has none, which is not zero bytes");
    }

    #[test]
    fn a_kernel_with_no_rdma_gives_no_answer_or_an_empty_one() {
        assert!(ask().is_none_or(|holders| holders.list.len() <= MAX_HOLDERS));
    }
}
