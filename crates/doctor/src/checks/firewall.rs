//! Whether the packet filter lets RoCE and its connections in.

use crate::limits::firewall::{applies_to, lets_roce_in};
use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "firewall",
    title: "the packet filter lets RoCE in",
    why: "RoCE v2 is UDP to port 4791. A card takes such packets itself, before any filter; \
          soft-RoCE gets them from the kernel, after it. Programs also meet over TCP first, at \
          ports of their own.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    if case.node.devices.is_empty() {
        return Vec::new();
    }
    let Some(firewall) = case.tree.answers().firewall() else { return Vec::new() };
    if !firewall.readable {
        return vec![Finding::unknown("host", "the packet filter's rules need root to read")];
    }
    let evidence = Evidence::new(
        &*firewall.program,
        match firewall.drops_by_default {
            Some(true) => {
                format!("drops what no rule lets in; UDP let in: {}", ranges(&firewall.udp_let_in))
            }
            Some(false) => "lets in what no rule drops".to_owned(),
            None => "default not known".to_owned(),
        },
    );
    let open = lets_roce_in(firewall);
    let soft = case.devices().into_iter().any(applies_to);
    let finding = match firewall.drops_by_default {
        None => return Vec::new(),
        Some(true) if !open && soft => Finding::problem(
            "host",
            "the packet filter drops soft-RoCE: UDP port 4791 is not let in",
        ),
        Some(true) if !open => Finding::note(
            "host",
            "the packet filter drops by default; RoCE of cards is not affected, TCP connections \
             of programs are",
        ),
        Some(_) => {
            return vec![Finding::ok("host", "the packet filter lets RoCE in").read(evidence)];
        }
    };
    vec![
        finding
            .read(evidence)
            .fix("firewall-cmd --permanent --add-port=4791/udp && firewall-cmd --reload")
            .fix("nft insert rule inet filter input udp dport 4791 accept"),
    ]
}

fn ranges(ranges: &[(u16, u16)]) -> String {
    if ranges.is_empty() {
        return "none".to_owned();
    }
    let word = |(from, to): &(u16, u16)| {
        if from == to { from.to_string() } else { format!("{from}-{to}") }
    };
    ranges.iter().map(word).collect::<Vec<_>>().join(", ")
}
