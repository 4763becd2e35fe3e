//! Counters of ignored or missing congestion notifications.

use node::{Device, Port};

use crate::input::port_name;
use crate::{Check, CheckInput, Finding};

pub(super) const CHECK: Check = Check {
    name: "congestion",
    title: "congestion notifications are sent and not ignored",
    why: "A receiver of ECN-marked packets sends congestion notification packets (CNPs), which make \
          the sender slow down. CNPs that are ignored or never sent mean that congestion control is \
          off at one end, although the network relies on it.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    input.ports().filter_map(|(device, port)| check_port(input, device, port)).collect()
}

fn check_port(input: &CheckInput<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let name = port_name(device, port);
    let count =
        |names: &[&str]| names.iter().find_map(|name| port.counter(name)?.value.value().copied());
    let file = |counter: &str| input.port_file(device, port, &format!("hw_counters/{counter}"));
    let ignored = count(&["rp_cnp_ignored", "cnpIgnored"]);
    if let Some(ignored) = ignored.filter(|count| *count > 0) {
        let counter =
            if port.counter("rp_cnp_ignored").is_some() { "rp_cnp_ignored" } else { "cnpIgnored" };
        return Some(
            Finding::warning(
                name,
                format!("{ignored} CNPs were ignored: ECN is off at this end"),
            )
            .evidence(file(counter))
            .fix(
                "Enable ECN's reaction point for RoCE's priority: `wirelane doctor ecn` prints the \
                 files.",
            ),
        );
    }
    let (marked, sent) = (count(&["np_ecn_marked_roce_packets"]), count(&["np_cnp_sent"]));
    if let (Some(marked), Some(0)) = (marked.filter(|count| *count > 0), sent) {
        return Some(
            Finding::warning(name, format!("{marked} marked packets received, but no CNP sent"))
                .evidence(file("np_ecn_marked_roce_packets"))
                .evidence(file("np_cnp_sent"))
                .fix(
                    "Enable ECN's notification point for RoCE's priority: `wirelane doctor ecn` \
                     prints the files.",
                ),
        );
    }
    ignored.or(marked).map(|_| Finding::ok(name, "no congestion notification was ignored"))
}
