//! A lossless priority for RoCE. Every switch and both ends must agree on it, which no machine knows alone, and
//! half of it is worse than none: so it is advice.

use node::NetDev;
use node::answers::Dcb;

use super::{Ask, Role};
use crate::Plan;

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    for (device, port, netdev) in ask.roce() {
        if device.role == Role::Software {
            continue;
        }
        let dcb = ask.tree.answers().dcb().and_then(|answers| answers.get(&netdev.name));
        let Some(found) = lacks(dcb) else { continue };
        let mut commands = commands(ask, netdev);
        commands.push(format!(
            "echo 106 > /sys/kernel/config/rdma_cm/{0}/ports/{1}/default_roce_tos    # after mkdir /sys/kernel/config/rdma_cm/{0}",
            device.name, port.number
        ));
        commands.push("export NCCL_IB_TC=106 UCX_IB_TRAFFIC_CLASS=106".to_owned());
        let why = format!(
            "{}: {found}. Where the switches have PFC for priority 3 and ECN for DSCP 26, set the same here; \
             106 is DSCP 26 and ECN",
            netdev.name
        );
        plan.advise("pfc", why, commands);
    }
}

/// What is missing, if something is.
fn lacks(dcb: Option<&Dcb>) -> Option<String> {
    let Some(dcb) = dcb else { return Some("its flow control cannot be read here".to_owned()) };
    let pfc = dcb.pfc_enabled.is_some_and(|enabled| enabled & 1 << PRIORITY != 0);
    let trust = dcb.trust.as_deref() == Some("dscp");
    match (pfc, trust) {
        (true, true) => None,
        (false, true) => Some("no pause frames for RoCE's priority".to_owned()),
        (true, false) => Some("priorities are not told by DSCP".to_owned()),
        (false, false) => {
            Some("no pause frames for RoCE's priority, nor is it told by DSCP".to_owned())
        }
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
        format!("dcb app replace dev {name} dscp-prio 26:{PRIORITY}"),
    ]
}

/// The one that most fabrics use.
const PRIORITY: u8 = 3;
