//! Functions that refuse to tell their counters.

use node::{Counter, Port, Seen};

use crate::doctor::case::port_name;
use crate::doctor::{Case, Check, Finding};

pub(super) const CHECK: Check = Check {
    name: "restricted",
    title: "counters can be read",
    why: "Some functions belong to another manager (the fabric manager of NVLink machines) and answer EINVAL. Each attempt is \
          a line in the kernel's log, so that careless monitoring floods it. Wirelane asks once and remembers.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    case.ports()
        .filter_map(|(device, port)| {
            let name = port_name(device, port);
            let refused = port.counters.iter().find(|counter| matches!(counter.value, Seen::Refused(_)));
            match refused {
                Some(counter) if !any_value(port) => {
                    let file = case.port_file(device, port, &format!("counters/{}", counter.name));
                    Some(
                        Finding::note(name, "refuses to tell its counters: another manager has this function")
                            .read(file)
                            .fix("Leave it out of monitoring: node_exporter has `--collector.infiniband.device-exclude`."),
                    )
                }
                _ if any_value(port) => Some(Finding::ok(name, "its counters can be read")),
                _ => None,
            }
        })
        .collect()
}

fn any_value(port: &Port) -> bool {
    port.counters.iter().any(|Counter { value, .. }| value.value().is_some())
}
