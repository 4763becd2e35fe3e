//! CPU idle states with a long exit latency.

use crate::expected::cpus::LONG_IDLE_US;
use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "idle",
    title: "CPUs wake up quickly from idle states",
    why: "A CPU in a deep idle state takes up to hundreds of microseconds to wake up, which adds to \
          the latency of every interrupt for a completion.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let states = &input.node.host.cpus.idle_states;
    let deepest = states.iter().max_by_key(|(_, microseconds)| **microseconds);
    let Some((name, microseconds)) = deepest else { return Vec::new() };
    let latencies: Vec<String> =
        states.iter().map(|(name, latency)| format!("{name} {latency} µs")).collect();
    let evidence = Evidence::new("/sys/devices/system/cpu/cpu0/cpuidle", latencies.join(", "));
    if *microseconds < LONG_IDLE_US {
        return vec![
            Finding::ok(
                "host",
                format!("the deepest idle state, {name}, has an exit latency of {microseconds} µs"),
            )
            .evidence(evidence),
        ];
    }
    vec![
        Finding::note(
            "host",
            format!("idle state {name} has an exit latency of {microseconds} µs"),
        )
        .evidence(evidence)
        .fix(
            "For the lowest latency: `wirelane tune plan --profile latency`. Programs that \
                 busy-poll are not affected.",
        ),
    ]
}
