//! Whether the IOMMU translates accesses of devices.

use node::{Address, Reading};

use crate::expected::iommu::{KERNEL_ARGUMENTS, PASSTHROUGH_TYPE, kernel_argument, translates};
use crate::{Check, CheckInput, Evidence, Finding, Severity};

pub(super) const CHECK: Check = Check {
    name: "iommu",
    title: "the IOMMU is in passthrough mode",
    why: "If the IOMMU translates, every access of a NIC needs a lookup, and accesses between \
          NICs and GPUs fail or are routed through the CPU: NCCL then fails with \
          IBV_WC_LOC_PROT_ERR (4), vendor error 81 (0x51), or is slow over TCP. Without GPUs it \
          costs some bandwidth, but nothing fails.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let nics =
        input.devices().into_iter().filter_map(|device| Some((device.name.clone(), device.pci?)));
    let gpus = input.gpus().into_iter().map(|gpu| (format!("GPU {}", gpu.index), gpu.pci));
    let functions: Vec<(String, Address)> = nics.chain(gpus).collect();
    if input.node.iommu.groups.is_empty() {
        return off(input, &functions);
    }
    if functions.is_empty() {
        return without_devices(input);
    }
    functions.iter().map(|(name, address)| check_function(input, name, *address)).collect()
}

/// No groups: there is no IOMMU, it is off, or the tree does not contain it.
fn off(input: &CheckInput<'_>, functions: &[(String, Address)]) -> Vec<Finding> {
    if functions.is_empty() && input.node.devices.is_empty() && !input.tree.exists("/sys/kernel") {
        return vec![Finding::unknown("host", "whether there is an IOMMU is not known")];
    }
    let groups = Evidence::new("/sys/kernel/iommu_groups", "no groups");
    vec![Finding::ok("host", "there is no IOMMU, or it is off").evidence(groups)]
}

/// No device to check: the state of the machine.
fn without_devices(input: &CheckInput<'_>) -> Vec<Finding> {
    let groups = &input.node.iommu.groups;
    let translating =
        groups.iter().find(|(_, kind)| kind.value().is_some_and(|kind| translates(kind)));
    let (group, state) = match translating {
        Some((group, _)) => (group, "translates"),
        None => match groups.iter().next() {
            Some((group, _)) => (group, "is in passthrough mode"),
            None => return Vec::new(),
        },
    };
    let summary =
        format!("the IOMMU {state} ({} groups); there is no RDMA NIC to check", groups.len());
    vec![Finding::note("host", summary).evidence(input.file(type_file(group)))]
}

fn check_function(input: &CheckInput<'_>, name: &str, address: Address) -> Finding {
    let Some(group) = input.function(address).and_then(|function| function.iommu_group.as_ref())
    else {
        return Finding::ok(name, "in no IOMMU group: not translated");
    };
    let file = input.file(type_file(group));
    match input.node.iommu.groups.get(group) {
        Some(Reading::Value(kind)) if translates(kind) => {
            translating(input, name, kind).evidence(file)
        }
        Some(Reading::Value(kind)) if kind == PASSTHROUGH_TYPE => {
            Finding::ok(name, "the IOMMU is in passthrough mode (identity)").evidence(file)
        }
        Some(Reading::Value(kind)) => Finding::note(
            name,
            format!(
                "its IOMMU group has type {kind}: a virtual machine or another program uses it"
            ),
        )
        .evidence(file),
        Some(Reading::Absent) | None => by_arguments(input, name).evidence(file),
        Some(_) => {
            Finding::unknown(name, "the type of its IOMMU group cannot be read").evidence(file)
        }
    }
}

fn translating(input: &CheckInput<'_>, name: &str, kind: &str) -> Finding {
    let severity = if input.moves_gpu_memory() { Severity::Problem } else { Severity::Note };
    let finding = Finding::new(severity, name, format!("the IOMMU translates accesses ({kind})"));
    let argument = kernel_argument(&input.node.host);
    finding.fix(format!("Add `{argument}` to the kernel command line and reboot.")).fix(
        "OpenShift: `wirelane k8s machineconfig` prints the MachineConfig; applying it reboots \
             the nodes.",
    )
}

/// Kernels before 4.19 have no file `type`. Their command line is only a hint, since the built-in default may differ.
fn by_arguments(input: &CheckInput<'_>, name: &str) -> Finding {
    let arguments = &input.node.host.kernel_arguments;
    let evidence = Evidence::new("/proc/cmdline", arguments.join(" "));
    let passthrough =
        arguments.iter().any(|argument| KERNEL_ARGUMENTS.contains(&argument.as_str()));
    let finding = if passthrough {
        Finding::ok(name, "passthrough mode is set on the kernel command line")
    } else {
        Finding::unknown(name, "this kernel does not report whether the IOMMU translates")
            .fix("Look for \"Default domain type\" in the kernel log: `dmesg | grep -i iommu`.")
    };
    finding.evidence(evidence)
}

fn type_file(group: &str) -> String {
    format!("/sys/kernel/iommu_groups/{group}/type")
}
