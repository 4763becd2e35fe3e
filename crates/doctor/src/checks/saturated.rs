//! Saturated counters.

use crate::input::port_name;
use crate::{Check, CheckInput, Finding};

pub(super) const CHECK: Check = Check {
    name: "saturated",
    title: "no counter is saturated",
    why: "InfiniBand's error counters have 4 to 32 bits and stop at their maximum. From then on \
          they count nothing, and graphs of them are flat.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let findings = input.ports().filter_map(|(device, port)| {
        let saturated: Vec<&str> = port
            .counters
            .iter()
            .filter(|counter| counter.is_saturated())
            .map(|counter| counter.name.as_str())
            .collect();
        if saturated.is_empty() {
            return None;
        }
        let name = port_name(device, port);
        let summary = format!("saturated: {}", saturated.join(", "));
        let files =
            saturated.iter().map(|name| input.port_file(device, port, &format!("counters/{name}")));
        Some(
            Finding::note(name, summary)
                .evidence_all(files)
                .fix("Reset them: `perfquery -R LID PORT` (InfiniBand, as root)."),
        )
    });
    findings.collect()
}
