//! Whether the firewall accepts RoCE.

use crate::expected::firewall::{accepts_roce, applies_to};
use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "firewall",
    title: "the firewall accepts RoCE",
    why: "RoCE v2 is UDP to port 4791. A NIC receives such packets itself, before the firewall; \
          soft-RoCE receives them from the kernel, after it. Programs also connect over TCP first, \
          on ports of their own.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    if input.node.devices.is_empty() {
        return Vec::new();
    }
    let Some(firewall) = input.tree.query_results().firewall() else { return Vec::new() };
    if !firewall.readable {
        return vec![Finding::unknown("host", "reading the firewall's rules requires root")];
    }
    let evidence = Evidence::new(
        &*firewall.program,
        match firewall.drops_by_default {
            Some(true) => {
                format!("drops by default; UDP ports accepted: {}", ranges(&firewall.udp_let_in))
            }
            Some(false) => "accepts by default".to_owned(),
            None => "default not known".to_owned(),
        },
    );
    let open = accepts_roce(firewall);
    let soft = input.devices().into_iter().any(applies_to);
    let finding = match firewall.drops_by_default {
        None => return Vec::new(),
        Some(true) if !open && soft => {
            Finding::problem("host", "the firewall drops soft-RoCE: UDP port 4791 is not accepted")
        }
        Some(true) if !open => Finding::note(
            "host",
            "the firewall drops by default: this affects TCP connections of programs, but not RoCE \
             of NICs",
        ),
        Some(_) => {
            return vec![Finding::ok("host", "the firewall accepts RoCE").evidence(evidence)];
        }
    };
    vec![
        finding
            .evidence(evidence)
            .fix("firewall-cmd --permanent --add-port=4791/udp && firewall-cmd --reload")
            .fix("nft insert rule inet filter input udp dport 4791 accept"),
    ]
}

fn ranges(ranges: &[(u16, u16)]) -> String {
    if ranges.is_empty() {
        return "none".to_owned();
    }
    let range = |(from, to): &(u16, u16)| {
        if from == to { from.to_string() } else { format!("{from}-{to}") }
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(", ")
}
