//! What a host needs for jobs on the fabric, also after a restart: as a plan.
//!
//! An [`Item`] is one such thing, a row of [`ITEMS`]. Some have a file here; those that `tune` has too are
//! taken from it, so that both write the same files. Only what is certain and can be reverted is a step; the rest is
//! advice with its commands. Nothing is changed here: see [`apply()`](crate::apply()).
//!
//! Start at [`plan`]; its input is a [`SetupRequest`].

mod address;
mod family;
pub(crate) mod firewall;
mod ipoib;
mod network_service;
mod openmpi;
mod packages;
mod permissions;
mod roce;

use std::fmt;

use node::{Node, Tree};
use serde::Serialize;

use crate::Plan;
use crate::tune::{self, Profile};
pub use address::PortAddress;
pub use family::Family;
pub use ipoib::IpoibMode;

/// What the host is set up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Programs that use RDMA.
    Rdma,
    /// The same, and MPI.
    Mpi,
}

/// What to set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupRequest {
    /// The purpose.
    pub purpose: Purpose,
    /// What rings and interrupts are tuned for.
    pub profile: Profile,
    /// Only these items; empty: all.
    pub only: Vec<String>,
    /// Not these items.
    pub skip: Vec<String>,
    /// Addresses of fabric ports.
    pub addresses: Vec<PortAddress>,
    /// The IPoIB mode; `None`: unchanged.
    pub ipoib: Option<IpoibMode>,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Wrong use: unknown items, or impossible addresses.
    WrongUse(String),
    /// The operating system is not supported.
    UnknownSystem(String),
}

/// One thing that a host needs.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    propose: Propose,
}

/// Everything that a host is set up with, in the order of a plan.
pub const ITEMS: &[Item] = &[
    ours("packages", "rdma-core, perftest, ethtool; for mpi Open MPI and UCX", packages::propose),
    of_tune("modules", "modules that RDMA programs need, now and at each start"),
    of_tune("memlock", "limit of locked memory, for users and services"),
    ours("permissions", "who may open the nodes of /dev/infiniband", permissions::propose),
    ours("ipoib", "datagram or connected mode, where one is given", ipoib::propose),
    ours("address", "addresses of fabric ports, where some are given", address::propose),
    of_tune("mtu", "packets of 4096 bytes on RoCE"),
    ours("roce", "RDMA CM connections over RoCE v2", roce::propose),
    of_tune("rings", "receive and send rings at maximum size (throughput)"),
    of_tune("coalescing", "interrupt coalescing"),
    of_tune("interrupts", "interrupts near the device"),
    of_tune("flow-control", "PFC, trust and DSCP of RoCE: advice"),
    ours("firewall", "UDP 4791 and programs' TCP: advice", firewall::propose),
    ours("openmpi", "what Open MPI needs besides packages: advice", openmpi::propose),
];

#[derive(Debug, Clone, Copy)]
enum Propose {
    Ours(fn(&Context<'_>, &mut Plan) -> Result<(), Refusal>),
    /// The item of the same name.
    Tune,
}

const fn ours(
    name: &'static str,
    what: &'static str,
    propose: fn(&Context<'_>, &mut Plan) -> Result<(), Refusal>,
) -> Item {
    Item { name, what, propose: Propose::Ours(propose) }
}

const fn of_tune(name: &'static str, what: &'static str) -> Item {
    Item { name, what, propose: Propose::Tune }
}

/// What is to be changed on this host.
pub fn plan(node: &Node, tree: &Tree, request: &SetupRequest) -> Result<Plan, Refusal> {
    request.check()?;
    let context = Context { node, tree, request, family: Family::of(tree)? };
    let mut plan = Plan::default();
    for item in ITEMS.iter().filter(|item| request.has(item)) {
        match item.propose {
            Propose::Ours(propose) => propose(&context, &mut plan)?,
            Propose::Tune => {
                let Plan { steps, advice } =
                    tune::propose(node, tree, request.profile, |name| name == item.name);
                plan.steps.extend(steps);
                plan.advice.extend(advice);
            }
        }
    }
    Ok(plan)
}

impl Purpose {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Rdma => "rdma",
            Purpose::Mpi => "mpi",
        }
    }
}

impl SetupRequest {
    /// All items for a purpose, with default settings.
    pub fn of(purpose: Purpose) -> SetupRequest {
        let (only, skip, addresses) = (Vec::new(), Vec::new(), Vec::new());
        SetupRequest { purpose, profile: Profile::Throughput, only, skip, addresses, ipoib: None }
    }

    fn has(&self, item: &Item) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == item.name);
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }

    fn check(&self) -> Result<(), Refusal> {
        let unknown = |name: &&String| ITEMS.iter().all(|item| item.name != name.as_str());
        let Some(name) = self.only.iter().chain(&self.skip).find(unknown) else { return Ok(()) };
        let names: Vec<&str> = ITEMS.iter().map(|item| item.name).collect();
        Err(Refusal::WrongUse(format!("unknown item {name:?}; items: {}", names.join(", "))))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::WrongUse(text) | Refusal::UnknownSystem(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Refusal {}

/// The facts that items read.
struct Context<'a> {
    node: &'a Node,
    tree: &'a Tree,
    request: &'a SetupRequest,
    family: Family,
}

/// The text of a file that applies a setting again after a restart.
fn persistent_file(lines: &[String]) -> String {
    let begin = "# Written by `wirelane setup`; `wirelane revert` reverts it.";
    [&[begin.to_owned()], lines].concat().join("\n") + "\n"
}

/// The reason for such a file in a plan.
const PERSISTENT: &str = "the same after a restart";
