//! Interrupts on CPUs of the device's NUMA node: elsewhere they cross the link between NUMA nodes.

use doctor::expected::interrupts::are_near;

use super::Context;
use crate::{Change, Plan};

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    if context.node.host.numa_nodes.len() < 2 {
        return;
    }
    let mut any_far = false;
    for device in &context.devices {
        let (Some(pci), Some(cpus)) = (device.pci, &device.local_cpus) else { continue };
        let far: Vec<String> = files(context, &pci.folder())
            .into_iter()
            .filter(|(_, now)| !are_near(now, cpus))
            .map(|(path, _)| path)
            .collect();
        if far.is_empty() {
            continue;
        }
        any_far = true;
        let why =
            format!("{} interrupts of {} may run on remote NUMA nodes", far.len(), device.name);
        plan.step("interrupts", why, Change::values(far, cpus.as_str()), false);
    }
    if any_far {
        plan.advise(
            "interrupts",
            NOT_PERSISTENT,
            vec![
                "systemctl disable --now irqbalance".to_owned(),
                "wirelane tune apply --only interrupts --yes    # after each start".to_owned(),
            ],
        );
    }
}

/// The affinity files of the device's interrupts, with their CPUs.
fn files(context: &Context<'_>, folder: &str) -> Vec<(String, String)> {
    let interrupt = |number: String| {
        number.parse::<u32>().ok()?;
        let path = format!("/proc/irq/{number}/smp_affinity_list");
        context.tree.text(&path).into_value().map(|now| (path, now))
    };
    context.tree.list(&format!("{folder}/msi_irqs")).into_iter().filter_map(interrupt).collect()
}

const NOT_PERSISTENT: &str = "interrupt numbers change at a restart, so no file keeps this setting; irqbalance, \
                              if it runs, moves them again";
