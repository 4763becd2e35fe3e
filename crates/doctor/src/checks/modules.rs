//! Kernel modules that programs need.

use node::NetDev;

use crate::expected::kernel_modules::{NEEDED, NeededModule, RDMA_UCM};
use crate::{Check, CheckInput, Finding};

pub(super) const CHECK: Check = Check {
    name: "modules",
    title: "the kernel modules that programs need are loaded",
    why: "Programs cannot open devices without ib_uverbs, rdma_cm connections need rdma_ucm, and \
          a NIC's network driver does not load its RDMA driver.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        input.node.netdevs.iter().filter_map(|netdev| missing_rdma_driver(input, netdev)).collect();
    if input.node.devices.is_empty() {
        return findings;
    }
    if input.node.modules.is_empty() && input.tree.list("/sys/module").is_empty() {
        findings.push(
            Finding::unknown("host", "the loaded modules are not known")
                .evidence(input.file("/sys/module")),
        );
        return findings;
    }
    // EFA does not support rdma_cm.
    let needed = NEEDED.iter().filter(|module| module.name != RDMA_UCM || !input.is_efa_only());
    findings.extend(needed.map(|module| check_module(input, module)));
    findings
}

fn check_module(input: &CheckInput<'_>, needed: &NeededModule) -> Finding {
    let NeededModule { name: module, without, severity, .. } = *needed;
    let path = format!("/sys/module/{module}");
    // A module built into the kernel may have no folder there, but its class has one.
    if is_loaded(input, module) || class_of(module).is_some_and(|class| input.tree.exists(class)) {
        return Finding::ok("host", format!("{module} is loaded"));
    }
    let finding = Finding::new(severity, "host", format!("{module} is not loaded: {without}"));
    finding
        .evidence(input.file(path))
        .fix(format!("modprobe {module}"))
        .fix(format!("echo {module} > /etc/modules-load.d/{module}.conf"))
}

fn is_loaded(input: &CheckInput<'_>, module: &str) -> bool {
    input.node.modules.iter().any(|loaded| loaded.name == module)
        || input.tree.exists(&format!("/sys/module/{module}"))
}

fn class_of(module: &str) -> Option<&'static str> {
    match module {
        "ib_uverbs" => Some("/sys/class/infiniband_verbs"),
        RDMA_UCM => Some("/sys/class/misc/rdma_cm"),
        _ => None,
    }
}

/// A NIC whose network driver is loaded and whose RDMA driver is not.
fn missing_rdma_driver(input: &CheckInput<'_>, netdev: &NetDev) -> Option<Finding> {
    let driver = netdev.driver.as_deref()?;
    let (_, rdma) = DRIVERS.iter().find(|(network, _)| *network == driver)?;
    let has_device = input.node.devices.iter().any(|device| device.pci == netdev.pci);
    if has_device || is_loaded(input, rdma) || netdev.pci.is_none() {
        return None;
    }
    let summary = format!("the NIC supports RDMA, but {rdma} is not loaded");
    let finding = Finding::note(&*netdev.name, summary);
    let finding = finding.evidence(input.file(format!("/sys/module/{rdma}")));
    Some(finding.fix(format!("To use it for RDMA: `modprobe {rdma}`.")))
}

/// Network drivers and their RDMA drivers.
const DRIVERS: &[(&str, &str)] = &[
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
