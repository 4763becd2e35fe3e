//! A lossless priority for RoCE. Every switch and both ends must have the same settings, which cannot be checked on one
//! machine, and a partial configuration is worse than none: so it is advice.

use doctor::expected::pfc::{self, DSCP, PRIORITY, TRAFFIC_CLASS};
use node::NetDev;

use super::{Context, Role};
use crate::Plan;

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    for (device, port, netdev) in context.roce() {
        if device.role == Role::Software {
            continue;
        }
        let dcb = context.tree.query_results().dcb().and_then(|answers| answers.get(&netdev.name));
        let missing = match dcb {
            Some(dcb) => pfc::missing(dcb),
            None => Some("its flow control cannot be read"),
        };
        let Some(missing) = missing else { continue };
        let mut commands = commands(context, netdev);
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
        plan.advise("flow-control", why, commands);
    }
}

/// Commands of `mlnx_qos` where it is installed, else of iproute2.
fn commands(context: &Context<'_>, netdev: &NetDev) -> Vec<String> {
    let name = &netdev.name;
    if context.tree.exists("/usr/bin/mlnx_qos") {
        return vec![format!("mlnx_qos -i {name} --trust dscp --pfc 0,0,0,1,0,0,0,0")];
    }
    vec![
        format!("dcb pfc set dev {name} prio-pfc all:off {PRIORITY}:on"),
        format!("dcb app replace dev {name} dscp-prio {DSCP}:{PRIORITY}"),
    ]
}
