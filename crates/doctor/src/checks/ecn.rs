//! Congestion control by ECN, where the driver has files for it.

use node::{Device, Port, Seen};

use crate::case::port_name;
use crate::{Case, Check, Finding};

pub(super) const CHECK: Check = Check {
    name: "ecn",
    title: "RoCE ports slow down when switches mark packets",
    why: "Switches mark packets when queues grow (ECN); the receiver tells the sender, which \
          slows down. An end that does not take part is slowed by pauses and drops instead, and \
          makes others wait. Each end has two switches, one for telling and one for obeying, per \
          priority.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    case.roce_ports().filter_map(|(device, port)| of_port(case, device, port)).collect()
}

/// Only NVIDIA's own driver package has these files; elsewhere nothing is said.
fn of_port(case: &Case<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let netdev = port.netdev.as_deref()?;
    let folder = format!("/sys/class/net/{netdev}/ecn");
    let on = |part: &str| -> Option<u8> {
        let bit = |priority: u8| match case
            .tree
            .number::<u8>(&format!("{folder}/{part}/enable/{priority}"))
        {
            Seen::Value(value) => Some(u8::from(value != 0) << priority),
            _ => None,
        };
        (0..8).map(bit).try_fold(0, |mask, bit| Some(mask | bit?))
    };
    let (telling, obeying) = (on("roce_np")?, on("roce_rp")?);
    let lossless =
        case.tree.answers().dcb().and_then(|all| all.get(netdev)?.pfc_enabled).unwrap_or(0);
    let name = port_name(device, port);
    let left_out = lossless & !obeying;
    let finding = match (telling, obeying) {
        (0, 0) => Finding::note(name, "takes no part in congestion control by ECN"),
        _ if left_out != 0 => Finding::warning(
            name,
            "ECN is off on a priority that has PFC: it will pause instead of slowing down",
        ),
        (0, _) => Finding::warning(
            name,
            "does not tell senders of marked packets (ECN, notification point)",
        ),
        (_, 0) => Finding::warning(
            name,
            "does not slow down when told of marked packets (ECN, reaction point)",
        ),
        _ => return Some(Finding::ok(name, "takes part in congestion control by ECN")),
    };
    let priority = if lossless == 0 { 3 } else { lossless.trailing_zeros() };
    Some(
        finding
            .read(case.file(format!("{folder}/roce_np/enable/{priority}")))
            .read(case.file(format!("{folder}/roce_rp/enable/{priority}")))
            .fix(format!("echo 1 > {folder}/roce_np/enable/{priority}"))
            .fix(format!("echo 1 > {folder}/roce_rp/enable/{priority}")),
    )
}
