//! Whether devices are shared between network namespaces.

use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "netns",
    title: "how devices are shared between network namespaces",
    why: "In shared mode every container sees every device; in exclusive mode a device is visible \
          in one network namespace only. Device plugins for shared devices do not start in \
          exclusive mode; isolation needs it.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let Some(exclusive) = input.tree.query_results().rdma().and_then(|rdma| rdma.exclusive_netns)
    else {
        return Vec::new();
    };
    let mode = if exclusive { "exclusive" } else { "shared" };
    let evidence = Evidence::new("rdma netlink: netns mode", mode);
    let summary = if exclusive {
        "exclusive: devices of other network namespaces are not visible here"
    } else {
        "shared: every network namespace sees every device"
    };
    vec![Finding::ok("host", summary).evidence(evidence)]
}
