//! No deep sleep of CPUs: waking from it takes longer than a message takes over the wire.
//!
//! `/dev/cpu_dma_latency` would need a program that holds it open for ever, and a kernel argument a restart;
//! each idle state can be switched off by a file, which is read, set and set back like any other.

use doctor::limits::cpus::LATENCY_IDLE_US;

use super::{Ask, Profile, persistent};
use crate::{Change, Plan};

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    let deep = deep_states(ask);
    if ask.profile != Profile::Latency || deep.is_empty() {
        return;
    }
    let slowest = deep.iter().map(|(_, _, latency)| *latency).max().unwrap_or_default();
    let paths: Vec<String> = deep.iter().map(|(path, ..)| path.clone()).collect();
    let why = format!(
        "waking from the deepest sleep takes {slowest} µs, a message over the wire 1 to 3; costs power"
    );
    plan.step("cstates", why, Change::values(paths, "1"), false);
    let mut states: Vec<&str> = deep.iter().map(|(_, state, _)| state.as_str()).collect();
    states.sort_unstable();
    states.dedup();
    let line = |state: &&str| format!("w {FOLDER}/cpu*/cpuidle/{state}/disable - - - - 1");
    let lines: Vec<String> = states.iter().map(line).collect();
    plan.step("cstates", persistent::WHY, persistent::values("cstates", &lines), false);
}

/// Files by which deep states that are on are switched off, the state's name, and how long waking takes.
fn deep_states(ask: &Ask<'_>) -> Vec<(String, String, u32)> {
    let tree = ask.tree;
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
