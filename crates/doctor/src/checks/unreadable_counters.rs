//! Functions whose counters cannot be read.

use node::{Device, Port, Reading};

use crate::input::{is_restricted, port_name};
use crate::{Check, CheckInput, Finding};

pub(super) const CHECK: Check = Check {
    name: "unreadable-counters",
    title: "counters can be read",
    why: "Some functions belong to another manager (the fabric manager of NVLink machines), and \
          reading their counters fails with EINVAL. Each attempt logs a line in the kernel log, so \
          that monitoring floods it. Wirelane tries once and remembers.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    input.ports().filter_map(|(device, port)| check_port(input, device, port)).collect()
}

fn check_port(input: &CheckInput<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let name = port_name(device, port);
    if !is_restricted(port) {
        let readable = port.counters.iter().any(|counter| counter.value.value().is_some());
        return readable.then(|| Finding::ok(name, "its counters can be read"));
    }
    let refused =
        port.counters.iter().find(|counter| matches!(counter.value, Reading::Refused(_)))?;
    let path = format!("{}/{}", refused.source.name(), refused.name);
    Some(
        Finding::note(name, "its counters cannot be read: the function belongs to another manager")
            .evidence(input.port_file(device, port, &path))
            .fix(
                "Exclude it from monitoring: node_exporter has \
                 `--collector.infiniband.device-exclude`.",
            ),
    )
}
