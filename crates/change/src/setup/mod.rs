//! What a host needs for jobs on the fabric, kept over a restart: as a plan.
//!
//! An [`Item`] is one such thing, a row of [`ITEMS`]. Some are here, a file each; those that `tune` knows already are
//! asked of it, so that both write the same files. Only what is certain and can be reverted is a step; the rest is
//! advice with its commands. Nothing is changed here: see [`apply()`](crate::apply()).
//!
//! Start at [`plan`]; what is asked for is a [`SetupRequest`].

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
pub use address::AddressOf;
pub use family::Family;
pub use ipoib::IpoibMode;

/// What the host is to be ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Programs that use RDMA.
    Rdma,
    /// The same, and MPI.
    Mpi,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupRequest {
    /// What for.
    pub purpose: Purpose,
    /// What rings and interrupts are to be good at.
    pub profile: Profile,
    /// These items and no others; empty: all.
    pub only: Vec<String>,
    /// Not these items.
    pub skip: Vec<String>,
    /// Addresses of fabric ports.
    pub addresses: Vec<AddressOf>,
    /// How IPoIB is to send.
    pub ipoib: Option<IpoibMode>,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// What was asked for cannot be meant.
    WrongUse(String),
    /// This machine is not one that we know.
    UnknownSystem(String),
}

/// One thing that a host needs.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    propose: Propose,
}

/// Everything that a host is set up with, in the order of a plan.
pub const ITEMS: &[Item] = &[
    ours("packages", "rdma-core, perftest, ethtool; for mpi Open MPI and UCX", packages::propose),
    of_tune("modules", "modules that RDMA programs need, now and at each start"),
    of_tune("memlock", "how much memory users and services may lock"),
    ours("group", "who may open the nodes of /dev/infiniband", permissions::propose),
    ours("ipoib", "datagram or connected mode, where one is given", ipoib::propose),
    ours("address", "addresses of fabric ports, where some are given", address::propose),
    of_tune("mtu", "packets of 4096 bytes on RoCE"),
    ours("roce", "connections of RDMA CM by RoCE v2", roce::propose),
    of_tune("rings", "receive and send rings at most (throughput)"),
    of_tune("coalescing", "when interrupts come"),
    of_tune("irq", "interrupts near the device"),
    of_tune("pfc", "PFC, trust and DSCP of RoCE: advice"),
    ours("firewall", "UDP 4791 and programs' TCP: advice", firewall::propose),
    ours("openmpi", "what Open MPI needs besides packages: advice", openmpi::propose),
];

#[derive(Debug, Clone, Copy)]
enum Propose {
    Ours(fn(&Ask<'_>, &mut Plan) -> Result<(), Refusal>),
    /// The item of the same name.
    Tune,
}

const fn ours(
    name: &'static str,
    what: &'static str,
    propose: fn(&Ask<'_>, &mut Plan) -> Result<(), Refusal>,
) -> Item {
    Item { name, what, propose: Propose::Ours(propose) }
}

const fn of_tune(name: &'static str, what: &'static str) -> Item {
    Item { name, what, propose: Propose::Tune }
}

/// What is to be changed on this host.
pub fn plan(node: &Node, tree: &Tree, wish: &SetupRequest) -> Result<Plan, Refusal> {
    wish.check()?;
    let ask = Ask { node, tree, wish, family: Family::of(tree)? };
    let mut plan = Plan::default();
    for item in ITEMS.iter().filter(|item| wish.has(item)) {
        match item.propose {
            Propose::Ours(propose) => propose(&ask, &mut plan)?,
            Propose::Tune => {
                let Plan { steps, advice } =
                    tune::propose(node, tree, wish.profile, |name| name == item.name);
                plan.steps.extend(steps);
                plan.advice.extend(advice);
            }
        }
    }
    Ok(plan)
}

impl Purpose {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Rdma => "rdma",
            Purpose::Mpi => "mpi",
        }
    }
}

impl SetupRequest {
    /// What is always done for a purpose.
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
        Err(Refusal::WrongUse(format!("there is no item {name:?}: choose of {}", names.join(", "))))
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

/// What items look at.
struct Ask<'a> {
    node: &'a Node,
    tree: &'a Tree,
    wish: &'a SetupRequest,
    family: Family,
}

/// A file of ours with these lines, which makes a setting again after a restart.
fn kept(lines: &[String]) -> String {
    let begin = "# Written by `wirelane setup`; `wirelane revert` reverts it.";
    [&[begin.to_owned()], lines].concat().join("\n") + "\n"
}

/// Why such a file is in a plan.
const KEPT: &str = "the same after a restart";
