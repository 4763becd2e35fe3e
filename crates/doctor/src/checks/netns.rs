//! Whether devices belong to one network namespace or to all.

use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "netns",
    title: "how devices are shared between network namespaces",
    why: "In shared mode every container sees every device; in exclusive mode a device is seen in \
          one network namespace alone. Device plugins for shared devices do not start in \
          exclusive mode, and isolation needs it.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let Some(exclusive) = case.tree.answers().rdma().and_then(|rdma| rdma.exclusive_netns) else {
        return Vec::new();
    };
    let word = if exclusive { "exclusive" } else { "shared" };
    let evidence = Evidence::new("rdma netlink: netns mode", word);
    let summary = if exclusive {
        "exclusive: devices of other network namespaces are not seen here"
    } else {
        "shared: every network namespace sees every device"
    };
    vec![Finding::ok("host", summary).read(evidence)]
}
