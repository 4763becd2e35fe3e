//! Interrupts on CPUs near the device: on others they cross the link between NUMA nodes.

use doctor::limits::interrupts::are_near;

use super::Ask;
use crate::{Change, Plan};

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    if ask.node.host.numa_nodes.len() < 2 {
        return;
    }
    let mut moved = false;
    for device in &ask.devices {
        let (Some(pci), Some(cpus)) = (device.pci, &device.local_cpus) else { continue };
        let far: Vec<String> = files(ask, &pci.folder())
            .into_iter()
            .filter(|(_, now)| !are_near(now, cpus))
            .map(|(path, _)| path)
            .collect();
        if far.is_empty() {
            continue;
        }
        moved = true;
        let why = format!("{} interrupts of {} may come to far CPUs", far.len(), device.name);
        plan.step("irq", why, Change::values(far, cpus.as_str()), false);
    }
    if moved {
        plan.advise(
            "irq",
            KEPT,
            vec![
                "systemctl disable --now irqbalance".to_owned(),
                "wirelane tune apply --only irq --yes    # after each start".to_owned(),
            ],
        );
    }
}

/// The device's interrupts and the CPUs that each may come to.
fn files(ask: &Ask<'_>, folder: &str) -> Vec<(String, String)> {
    let interrupt = |number: String| {
        number.parse::<u32>().ok()?;
        let path = format!("/proc/irq/{number}/smp_affinity_list");
        ask.tree.text(&path).into_value().map(|now| (path, now))
    };
    ask.tree.list(&format!("{folder}/msi_irqs")).into_iter().filter_map(interrupt).collect()
}

const KEPT: &str = "interrupts have other numbers after a restart, so no file keeps this; and irqbalance, \
                    if it runs, moves them again";
