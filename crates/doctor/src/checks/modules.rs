//! Kernel modules that programs need.

use node::NetDev;

use crate::limits::kernel_modules::{NEEDED, NeededModule, RDMA_UCM};
use crate::{Case, Check, Finding};

pub(super) const CHECK: Check = Check {
    name: "modules",
    title: "the kernel has loaded what programs need to use the devices",
    why: "A device of the kernel is of no use to programs without ib_uverbs, connections by \
          address need rdma_ucm, and a card's network driver comes without its RDMA half.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        case.node.netdevs.iter().filter_map(|netdev| half_loaded(case, netdev)).collect();
    if case.node.devices.is_empty() {
        return findings;
    }
    if case.node.modules.is_empty() && case.tree.list("/sys/module").is_empty() {
        findings.push(
            Finding::unknown("host", "which modules are loaded is not known")
                .read(case.file("/sys/module")),
        );
        return findings;
    }
    // EFA has no connections by address.
    let asked = NEEDED.iter().filter(|module| module.name != RDMA_UCM || !case.is_efa_alone());
    findings.extend(asked.map(|module| needed(case, module)));
    findings
}

fn needed(case: &Case<'_>, needed: &NeededModule) -> Finding {
    let NeededModule { name: module, without, verdict, .. } = *needed;
    let path = format!("/sys/module/{module}");
    // Code that is built into the kernel may have no folder there, but for its class.
    if is_loaded(case, module) || class_of(module).is_some_and(|class| case.tree.exists(class)) {
        return Finding::ok("host", format!("{module} is loaded"));
    }
    let finding = Finding::new(verdict, "host", format!("{module} is not loaded: {without}"));
    finding
        .read(case.file(path))
        .fix(format!("modprobe {module}"))
        .fix(format!("echo {module} > /etc/modules-load.d/{module}.conf"))
}

fn is_loaded(case: &Case<'_>, module: &str) -> bool {
    case.node.modules.iter().any(|loaded| loaded.name == module)
        || case.tree.exists(&format!("/sys/module/{module}"))
}

fn class_of(module: &str) -> Option<&'static str> {
    match module {
        "ib_uverbs" => Some("/sys/class/infiniband_verbs"),
        RDMA_UCM => Some("/sys/class/misc/rdma_cm"),
        _ => None,
    }
}

/// A card whose network driver is loaded and whose RDMA driver is not.
fn half_loaded(case: &Case<'_>, netdev: &NetDev) -> Option<Finding> {
    let driver = netdev.driver.as_deref()?;
    let (_, rdma) = HALVES.iter().find(|(network, _)| *network == driver)?;
    let has_device = case.node.devices.iter().any(|device| device.pci == netdev.pci);
    if has_device || is_loaded(case, rdma) || netdev.pci.is_none() {
        return None;
    }
    let summary = format!("the card can do RDMA, and {rdma} is not loaded");
    let finding = Finding::note(&*netdev.name, summary);
    let finding = finding.read(case.file(format!("/sys/module/{rdma}")));
    Some(finding.fix(format!("To use it for RDMA: `modprobe {rdma}`.")))
}

/// Network drivers and their RDMA halves.
const HALVES: &[(&str, &str)] = &[
    ("mlx5_core", "mlx5_ib"),
    ("mlx4_en", "mlx4_ib"),
    ("mlx4_core", "mlx4_ib"),
    ("bnxt_en", "bnxt_re"),
    ("ice", "irdma"),
    ("i40e", "irdma"),
    ("qede", "qedr"),
    ("cxgb4", "iw_cxgb4"),
    ("hns3", "hns_roce_hw_v2"),
    ("mana", "mana_ib"),
];
