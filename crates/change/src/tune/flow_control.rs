//! A lossless priority for RoCE. Every switch and both ends must agree on it, which no machine knows alone, and
//! half of it is worse than none: so it is advice.

use doctor::limits::pfc::{self, DSCP, PRIORITY, TRAFFIC_CLASS};
use node::NetDev;

use super::{Ask, Role};
use crate::Plan;

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    for (device, port, netdev) in ask.roce() {
        if device.role == Role::Software {
            continue;
        }
        let dcb = ask.tree.answers().dcb().and_then(|answers| answers.get(&netdev.name));
        let missing = match dcb {
            Some(dcb) => pfc::missing(dcb),
            None => Some("its flow control cannot be read here"),
        };
        let Some(missing) = missing else { continue };
        let mut commands = commands(ask, netdev);
        commands.push(format!(
            "echo {TRAFFIC_CLASS} > /sys/kernel/config/rdma_cm/{0}/ports/{1}/default_roce_tos    # after mkdir /sys/kernel/config/rdma_cm/{0}",
            device.name, port.number
        ));
        commands.push(format!(
            "export NCCL_IB_TC={TRAFFIC_CLASS} UCX_IB_TRAFFIC_CLASS={TRAFFIC_CLASS}"
        ));
        let why = format!(
            "{}: {missing}. Where the switches have PFC for priority {PRIORITY} and ECN for DSCP {DSCP}, set the \
             same here; {TRAFFIC_CLASS} is DSCP {DSCP} and ECN",
            netdev.name
        );
        plan.advise("pfc", why, commands);
    }
}

/// By the program that is there; iproute2's otherwise.
fn commands(ask: &Ask<'_>, netdev: &NetDev) -> Vec<String> {
    let name = &netdev.name;
    if ask.tree.exists("/usr/bin/mlnx_qos") {
        return vec![format!("mlnx_qos -i {name} --trust dscp --pfc 0,0,0,1,0,0,0,0")];
    }
    vec![
        format!("dcb pfc set dev {name} prio-pfc all:off {PRIORITY}:on"),
        format!("dcb app replace dev {name} dscp-prio {DSCP}:{PRIORITY}"),
    ]
}
