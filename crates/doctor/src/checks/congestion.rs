//! Counters that contradict the congestion control settings.

use node::{Device, Port};

use crate::case::port_name;
use crate::{Case, Check, Finding};

pub(super) const CHECK: Check = Check {
    name: "congestion",
    title: "nobody asked this host to slow down in vain",
    why: "A peer that receives marked packets asks their sender to slow down. Requests that are \
          ignored, or never sent, mean that one end has congestion control off while the network \
          counts on it.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    case.ports().filter_map(|(device, port)| of_port(case, device, port)).collect()
}

fn of_port(case: &Case<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let name = port_name(device, port);
    let count =
        |names: &[&str]| names.iter().find_map(|name| port.counter(name)?.value.value().copied());
    let file = |counter: &str| case.port_file(device, port, &format!("hw_counters/{counter}"));
    let ignored = count(&["rp_cnp_ignored", "cnpIgnored"]);
    if let Some(ignored) = ignored.filter(|count| *count > 0) {
        let counter =
            if port.counter("rp_cnp_ignored").is_some() { "rp_cnp_ignored" } else { "cnpIgnored" };
        return Some(
            Finding::warning(
                name,
                format!("{ignored} requests to slow down were ignored: ECN is off at this end"),
            )
            .read(file(counter))
            .fix(
                "Switch on ECN's reaction point for RoCE's priority: `wirelane doctor ecn` shows \
                 where.",
            ),
        );
    }
    let (marked, told) = (count(&["np_ecn_marked_roce_packets"]), count(&["np_cnp_sent"]));
    if let (Some(marked), Some(0)) = (marked.filter(|count| *count > 0), told) {
        return Some(
            Finding::warning(name, format!("{marked} marked packets came, and no sender was told"))
                .read(file("np_ecn_marked_roce_packets"))
                .read(file("np_cnp_sent"))
                .fix(
                    "Switch on ECN's notification point for RoCE's priority: `wirelane doctor \
                     ecn` shows where.",
                ),
        );
    }
    ignored.or(marked).map(|_| Finding::ok(name, "no request to slow down was ignored"))
}
