//! Saturated counters.

use crate::case::port_name;
use crate::{Case, Check, Finding};

pub(super) const CHECK: Check = Check {
    name: "saturated",
    title: "counters still count",
    why: "InfiniBand's error counters have 4 to 32 bits and stay at their maximum when they \
          reach it. From then on they count nothing, and graphs of them are flat.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let full = case.ports().filter_map(|(device, port)| {
        let full: Vec<&str> = port
            .counters
            .iter()
            .filter(|counter| counter.is_saturated())
            .map(|counter| counter.name.as_str())
            .collect();
        if full.is_empty() {
            return None;
        }
        let name = port_name(device, port);
        let summary = format!("{} can count no further", full.join(", "));
        let files =
            full.iter().map(|name| case.port_file(device, port, &format!("counters/{name}")));
        Some(
            Finding::note(name, summary)
                .read_all(files)
                .fix("Set them back: `perfquery -R LID PORT` (InfiniBand, as root)."),
        )
    });
    full.collect()
}
