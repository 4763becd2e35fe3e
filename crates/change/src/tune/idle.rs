//! No deep idle states of CPUs: leaving one takes longer than a message takes over the wire.
//!
//! `/dev/cpu_dma_latency` would need a program that keeps it open forever, and a kernel argument a restart;
//! each idle state can be switched off by a file, which is read, set and restored like any other.

use doctor::expected::cpus::LATENCY_IDLE_US;

use super::{Context, Profile, persistent};
use crate::{Change, Plan};

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    let deep = deep_states(context);
    if context.profile != Profile::Latency || deep.is_empty() {
        return;
    }
    let slowest = deep.iter().map(|(_, _, latency)| *latency).max().unwrap_or_default();
    let paths: Vec<String> = deep.iter().map(|(path, ..)| path.clone()).collect();
    let why = format!(
        "leaving the deepest idle state takes {slowest} µs, a message over the wire 1 to 3; costs power"
    );
    plan.step("idle", why, Change::values(paths, "1"), false);
    let mut states: Vec<&str> = deep.iter().map(|(_, state, _)| state.as_str()).collect();
    states.sort_unstable();
    states.dedup();
    let line = |state: &&str| format!("w {FOLDER}/cpu*/cpuidle/{state}/disable - - - - 1");
    let lines: Vec<String> = states.iter().map(line).collect();
    plan.step("idle", persistent::WHY, persistent::values("idle", &lines), false);
}

/// Enabled deep idle states: the file that disables each, its name, and its exit latency in µs.
fn deep_states(context: &Context<'_>) -> Vec<(String, String, u32)> {
    let tree = context.tree;
    let mut found = Vec::new();
    for cpu in tree.list(FOLDER) {
        if cpu.strip_prefix("cpu").is_none_or(|number| number.parse::<u32>().is_err()) {
            continue;
        }
        let folder = format!("{FOLDER}/{cpu}/cpuidle");
        for state in tree.list(&folder) {
            let latency = tree.number::<u32>(&format!("{folder}/{state}/latency")).into_value();
            let path = format!("{folder}/{state}/disable");
            let is_on = tree.number::<u32>(&path).value() == Some(&0);
            match latency {
                Some(latency) if latency > LATENCY_IDLE_US && is_on => {
                    found.push((path, state, latency));
                }
                _ => {}
            }
        }
    }
    found
}

const FOLDER: &str = "/sys/devices/system/cpu";
