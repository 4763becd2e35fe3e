//! Congestion control with ECN, if the driver has files for it.

use node::{Device, Port, Reading};

use crate::input::port_name;
use crate::{Check, CheckInput, Finding};

pub(super) const CHECK: Check = Check {
    name: "ecn",
    title: "RoCE ports slow down when switches mark packets",
    why: "Switches mark packets when queues grow (ECN); the receiver notifies the sender, which \
          slows down. An end that does not take part is slowed by pauses and drops instead, and \
          delays others. Each end has two settings per priority: the notification point (np) and \
          the reaction point (rp).",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    input.roce_ports().filter_map(|(device, port)| check_port(input, device, port)).collect()
}

/// Only NVIDIA's own driver package has these files; without them there is no finding.
fn check_port(input: &CheckInput<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let netdev = port.netdev.as_deref()?;
    let folder = format!("/sys/class/net/{netdev}/ecn");
    let enabled = |part: &str| -> Option<u8> {
        let bit = |priority: u8| match input
            .tree
            .number::<u8>(&format!("{folder}/{part}/enable/{priority}"))
        {
            Reading::Value(value) => Some(u8::from(value != 0) << priority),
            _ => None,
        };
        (0..8).map(bit).try_fold(0, |mask, bit| Some(mask | bit?))
    };
    let (notification, reaction) = (enabled("roce_np")?, enabled("roce_rp")?);
    let lossless =
        input.tree.query_results().dcb().and_then(|all| all.get(netdev)?.pfc_enabled).unwrap_or(0);
    let name = port_name(device, port);
    let without_ecn = lossless & !reaction;
    let finding = match (notification, reaction) {
        (0, 0) => Finding::note(name, "ECN is off"),
        _ if without_ecn != 0 => Finding::warning(
            name,
            "ECN is off on a priority with PFC: the port pauses instead of slowing down",
        ),
        (0, _) => Finding::warning(
            name,
            "does not notify senders of marked packets (ECN notification point is off)",
        ),
        (_, 0) => Finding::warning(
            name,
            "does not react to congestion notifications (ECN reaction point is off)",
        ),
        _ => return Some(Finding::ok(name, "ECN is on")),
    };
    let priority = if lossless == 0 { 3 } else { lossless.trailing_zeros() };
    Some(
        finding
            .evidence(input.file(format!("{folder}/roce_np/enable/{priority}")))
            .evidence(input.file(format!("{folder}/roce_rp/enable/{priority}")))
            .fix(format!("echo 1 > {folder}/roce_np/enable/{priority}"))
            .fix(format!("echo 1 > {folder}/roce_rp/enable/{priority}")),
    )
}
