//! Functions whose counters cannot be read.

use node::{Device, Port, Seen};

use crate::case::{is_restricted, port_name};
use crate::{Case, Check, Finding};

pub(super) const CHECK: Check = Check {
    name: "restricted",
    title: "counters can be read",
    why: "Some functions belong to another manager (the fabric manager of NVLink machines) and \
          answer EINVAL. Each attempt is a line in the kernel's log, so that careless monitoring \
          floods it. Wirelane asks once and remembers.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    case.ports().filter_map(|(device, port)| of_port(case, device, port)).collect()
}

fn of_port(case: &Case<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let name = port_name(device, port);
    if !is_restricted(port) {
        let told = port.counters.iter().any(|counter| counter.value.value().is_some());
        return told.then(|| Finding::ok(name, "its counters can be read"));
    }
    let refused = port.counters.iter().find(|counter| matches!(counter.value, Seen::Refused(_)))?;
    let path = format!("{}/{}", refused.folder.name(), refused.name);
    Some(
        Finding::note(name, "refuses to tell its counters: another manager has this function")
            .read(case.port_file(device, port, &path))
            .fix(
                "Leave it out of monitoring: node_exporter has \
                 `--collector.infiniband.device-exclude`.",
            ),
    )
}
