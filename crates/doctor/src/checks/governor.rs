//! CPU frequency governors.

use crate::expected::cpus::GOVERNOR;
use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "governor",
    title: "CPUs run at full speed",
    why: "To a power-saving governor a CPU that waits for completions looks idle, and is slowed \
          down: latencies grow and vary, and benchmarks report conflicting CPU frequencies.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let governors = &input.node.host.cpus.governors;
    if governors.is_empty() {
        return Vec::new();
    }
    let counts: Vec<String> = governors
        .iter()
        .map(|governor| format!("{}: {} CPUs", governor.name, governor.cpus))
        .collect();
    let evidence =
        Evidence::new("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor", counts.join(", "));
    if governors.iter().all(|governor| governor.name == GOVERNOR) {
        return vec![
            Finding::ok("host", format!("all CPUs have the governor {GOVERNOR}"))
                .evidence(evidence),
        ];
    }
    let others: Vec<&str> = governors
        .iter()
        .map(|governor| governor.name.as_str())
        .filter(|name| *name != GOVERNOR)
        .collect();
    vec![
        Finding::note(
            "host",
            format!("CPU governor {}: latencies will vary", others.join(", ")),
        )
        .evidence(evidence)
        .fix(
            "cpupower frequency-set -g performance; `wirelane tune plan --profile latency` includes \
             it.",
        ),
    ]
}
