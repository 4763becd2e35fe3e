//! CPUs that save power.

use crate::limits::cpus::GOVERNOR;
use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "governor",
    title: "CPUs run at full speed",
    why: "A CPU that waits for completions looks idle to a governor that saves power, and \
          is slowed down: latencies grow and vary, and benchmarks complain of conflicting \
          frequencies.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let governors = &case.node.host.cpus.governors;
    if governors.is_empty() {
        return Vec::new();
    }
    let words: Vec<String> = governors
        .iter()
        .map(|governor| format!("{} of {}", governor.cpus, governor.name))
        .collect();
    let evidence =
        Evidence::new("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor", words.join(", "));
    if governors.iter().all(|governor| governor.name == GOVERNOR) {
        return vec![
            Finding::ok("host", format!("all CPUs have the governor {GOVERNOR}")).read(evidence),
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
            format!("CPUs save power (governor {}): latencies will vary", others.join(", ")),
        )
        .read(evidence)
        .fix(
            "cpupower frequency-set -g performance; `wirelane tune plan --profile latency` shows \
             it with the rest.",
        ),
    ]
}
