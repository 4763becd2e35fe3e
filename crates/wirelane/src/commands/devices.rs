//! `wirelane devices`: the RDMA devices of a machine; on the running machine also as reported by libibverbs and libfabric.

mod text;

use std::collections::BTreeMap;

use clap::Args;
use fabric::verbs::Choice;
use node::{Address, Device, Function, Host, NetDev, Node};
use serde::Serialize;

use crate::arguments::host::HostArgs;
use crate::links::libfabric::Libfabric;
use crate::links::rdma::{ChoiceReport, DeviceReport, Rdma, RdmaReport, chosen};
use crate::output::{Exit, Failure};
use crate::settings::Global;
use crate::settings::Settings;
use crate::{logging, output};

#[derive(Debug, Args)]
pub(crate) struct DevicesArgs {
    #[command(flatten)]
    host: HostArgs,

    /// Show all GIDs, partition keys, GUIDs, and each PCIe link up to the root
    #[arg(long)]
    wide: bool,

    /// Print JSON (see docs/devices.md)
    #[arg(long)]
    json: bool,
}

/// Having no device is not a failure: the reason is printed, and the exit code is 0.
pub(crate) fn run(global: &Global, args: &DevicesArgs) -> Result<Exit, Failure> {
    let tree = args.host.tree()?;
    // The libraries and settings of this machine say nothing about another one.
    let verbs = if tree.is_live() { Some(Verbs::query(global)?) } else { None };
    let node = Node::read(&tree);
    // libfabric is loaded only for the full output.
    let wide = verbs.as_ref().filter(|_| args.wide || args.json);
    let libfabric = wide.map(|verbs| Libfabric::query(global, &verbs.settings));
    if args.json {
        output::json(&Report::new(&node, verbs.as_ref(), libfabric))?;
        return Ok(Exit::Done);
    }
    output::text(&text::render(&node, verbs.as_ref().map(|verbs| &verbs.rdma), args.wide))?;
    if let Some(libfabric) = libfabric {
        output::text(&libfabric.text())?;
    }
    match &verbs {
        Some(Verbs { rdma: Rdma { off: Some(off), .. }, .. }) => {
            output::note(&format!("RDMA is off: {} — {}", off.why, off.fix));
        }
        Some(verbs) => output::text(&format!("chosen: {}\n", chosen(&verbs.choice)))?,
        None if node.devices.is_empty() => output::note("no RDMA device"),
        None => (),
    }
    Ok(Exit::Done)
}

/// The devices of libibverbs, and the one that would be chosen.
struct Verbs {
    settings: Settings,
    rdma: Rdma,
    choice: Result<Choice, String>,
}

impl Verbs {
    fn query(global: &Global) -> Result<Self, Failure> {
        let settings = Settings::load(global)?.settings;
        logging::start(global, &settings);
        let rdma = Rdma::query_with(global, &settings);
        let choice = rdma.choice(&settings);
        Ok(Verbs { settings, rdma, choice })
    }
}

/// The JSON output.
#[derive(Serialize)]
struct Report<'r> {
    host: &'r Host,
    devices: Vec<DeviceRow<'r>>,
    netdevs: &'r [NetDev],
    pci: &'r BTreeMap<Address, Function>,
    rdma: Option<RdmaReport<'r>>,
    choice: Option<ChoiceReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    libfabric: Option<Libfabric>,
}

/// A device from /sys, and as reported by libibverbs.
#[derive(Serialize)]
struct DeviceRow<'r> {
    #[serde(flatten)]
    device: &'r Device,
    verbs: Option<DeviceReport<'r>>,
}

impl<'r> Report<'r> {
    fn new(node: &'r Node, verbs: Option<&'r Verbs>, libfabric: Option<Libfabric>) -> Self {
        let row = |device: &'r Device| {
            let reported = verbs.and_then(|verbs| verbs.rdma.device(&device.name));
            DeviceRow { device, verbs: reported.map(DeviceReport::new) }
        };
        Report {
            host: &node.host,
            devices: node.devices.iter().map(row).collect(),
            netdevs: &node.netdevs,
            pci: &node.pci,
            rdma: verbs.map(|verbs| verbs.rdma.report()),
            choice: verbs.map(|verbs| verbs.choice.clone().into()),
            libfabric,
        }
    }
}
