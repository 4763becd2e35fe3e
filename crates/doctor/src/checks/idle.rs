//! Idle states that take long to leave.

use crate::limits::cpus::LONG_IDLE_US;
use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "idle",
    title: "CPUs wake up soon",
    why: "A CPU in a deep idle state takes up to hundreds of microseconds to come back; an \
          interrupt that ends a wait for a completion pays for it.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let states = &case.node.host.cpus.idle_states;
    let deepest = states.iter().max_by_key(|(_, microseconds)| **microseconds);
    let Some((name, microseconds)) = deepest else { return Vec::new() };
    let words: Vec<String> =
        states.iter().map(|(name, latency)| format!("{name} {latency} µs")).collect();
    let evidence = Evidence::new("/sys/devices/system/cpu/cpu0/cpuidle", words.join(", "));
    if *microseconds < LONG_IDLE_US {
        return vec![
            Finding::ok(
                "host",
                format!("the deepest idle state, {name}, is left in {microseconds} µs"),
            )
            .read(evidence),
        ];
    }
    vec![
        Finding::note("host", format!("idle state {name} takes {microseconds} µs to leave"))
            .read(evidence)
            .fix(
                "For the lowest latency: `wirelane tune plan --profile latency`; programs that \
                 spin do not notice.",
            ),
    ]
}
