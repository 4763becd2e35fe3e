//! The RoCE version of RDMA CM connections. Version 1 has no IP header: routers do not forward it, and switches
//! cannot classify it by DSCP.

use node::{Device, GidType, Port, Reading};

use super::{Context, Refusal};
use crate::{Change, Plan};

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let ports = context
        .node
        .devices
        .iter()
        .flat_map(|device| device.ports.iter().map(move |port| (device, port)));
    for (device, port) in ports.filter(|(_, port)| has_both(port)) {
        let file = format!(
            "/sys/kernel/config/rdma_cm/{}/ports/{}/default_roce_mode",
            device.name, port.number
        );
        match context.tree.text(&file).into_value() {
            Some(mode) if mode == V2 => {}
            Some(_) => set(plan, device, file),
            None if is_old(context) => {
                let why = format!(
                    "{}: kernels before 4.12 connect over RoCE v1 unless v2 is set at each boot",
                    device.name
                );
                plan.advise(
                    "roce",
                    why,
                    vec![format!("cma_roce_mode -d {} -p {} -m 2", device.name, port.number)],
                );
            }
            // Newer kernels default to version 2; another setting would be readable.
            None => {}
        }
    }
    Ok(())
}

fn set(plan: &mut Plan, device: &Device, file: String) {
    let why = format!("{} connects over RoCE v1, which is not routable", device.name);
    plan.step("roce", why, Change::value(file, V2), false);
    let why = format!(
        "{}: the kernel's default is RoCE v2, so something on this machine sets v1, and will again after a restart: find it",
        device.name
    );
    plan.advise("roce", why, vec![
        "grep -rl -e cma_roce_mode -e default_roce_mode /etc/rc.local /etc/systemd/system /etc/udev/rules.d /etc/cron.d"
            .to_owned(),
    ]);
}

fn has_both(port: &Port) -> bool {
    let has = |kind: GidType| port.gids.iter().any(|gid| gid.kind == Reading::Value(kind));
    has(GidType::IbOrRoceV1) && has(GidType::RoceV2)
}

fn is_old(context: &Context<'_>) -> bool {
    let Some(kernel) = context.node.host.kernel.value() else { return false };
    let mut numbers = kernel.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) < (4, 12),
        _ => false,
    }
}

const V2: &str = "RoCE v2";
