//! Which RoCE the connections of RDMA CM use. Version 1 has no IP header: routers do not pass it, and switches
//! that tell traffic by DSCP do not see it.

use node::{Device, GidType, Port, Seen};

use super::{Ask, Refusal};
use crate::{Change, Plan};

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let ports = ask
        .node
        .devices
        .iter()
        .flat_map(|device| device.ports.iter().map(move |port| (device, port)));
    for (device, port) in ports.filter(|(_, port)| has_both(port)) {
        let file = format!(
            "/sys/kernel/config/rdma_cm/{}/ports/{}/default_roce_mode",
            device.name, port.number
        );
        match ask.tree.text(&file).into_value() {
            Some(mode) if mode == V2 => {}
            Some(_) => set(plan, device, file),
            None if is_old(ask) => {
                let why = format!(
                    "{}: kernels before 4.12 connect by RoCE v1 unless they are told at each start",
                    device.name
                );
                plan.advise(
                    "roce",
                    why,
                    vec![format!("cma_roce_mode -d {} -p {} -m 2", device.name, port.number)],
                );
            }
            // Newer ones connect by version 2, unless somebody has told them otherwise, which would be readable.
            None => {}
        }
    }
    Ok(())
}

fn set(plan: &mut Plan, device: &Device, file: String) {
    let why = format!("connections of {} are made by RoCE v1, which no router passes", device.name);
    plan.step("roce", why, Change::value(file, V2), false);
    let why = format!(
        "{}: kernels begin with RoCE v2, so something on this machine sets v1, and will again after a restart: find it",
        device.name
    );
    plan.advise("roce", why, vec![
        "grep -rl -e cma_roce_mode -e default_roce_mode /etc/rc.local /etc/systemd/system /etc/udev/rules.d /etc/cron.d"
            .to_owned(),
    ]);
}

fn has_both(port: &Port) -> bool {
    let has = |kind: GidType| port.gids.iter().any(|gid| gid.kind == Seen::Value(kind));
    has(GidType::IbOrRoceV1) && has(GidType::RoceV2)
}

fn is_old(ask: &Ask<'_>) -> bool {
    let Some(kernel) = ask.node.host.kernel.value() else { return false };
    let mut numbers = kernel.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) < (4, 12),
        _ => false,
    }
}

const V2: &str = "RoCE v2";
