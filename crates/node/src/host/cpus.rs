//! The CPUs.

use std::collections::BTreeMap;

use super::{Cpus, Governor};
use crate::{Reading, Tree};

pub(super) fn read(tree: &Tree) -> Cpus {
    let info = tree.text("/proc/cpuinfo").into_value().unwrap_or_default();
    let value = |name: &str| {
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.trim() == name).map(|(_, value)| value.trim().to_owned())
    };
    let online = online(tree);
    Cpus {
        model: value("model name"),
        vendor: value("vendor_id").or_else(|| value("CPU implementer")),
        governors: governors(tree, online.as_deref().unwrap_or_default()),
        idle_states: idle_states(tree),
        online: online.map(|online| online.len() as u32),
    }
}

/// The numbers of the CPUs online.
pub(super) fn online(tree: &Tree) -> Option<Vec<u32>> {
    cpu_list(&tree.text(&format!("{FOLDER}/online")).into_value()?)
}

fn governors(tree: &Tree, online: &[u32]) -> Vec<Governor> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for cpu in online {
        let file = format!("{FOLDER}/cpu{cpu}/cpufreq/scaling_governor");
        if let Reading::Value(name) = tree.text(&file) {
            *counts.entry(name).or_default() += 1;
        }
    }
    counts.into_iter().map(|(name, cpus)| Governor { name, cpus }).collect()
}

/// The states of the first CPU; all have the same.
fn idle_states(tree: &Tree) -> BTreeMap<String, u32> {
    let folder = format!("{FOLDER}/cpu0/cpuidle");
    let state = |state: String| {
        let file = |name: &str| format!("{folder}/{state}/{name}");
        let is_off = tree.number(&file("disable")) == Reading::Value(1u32);
        let name = tree.text(&file("name")).into_value().filter(|_| !is_off)?;
        Some((name, tree.number(&file("latency")).into_value()?))
    };
    tree.list(&folder).into_iter().filter_map(state).collect()
}

/// The numbers in a CPU list of the kernel: `0-3,8`. `None` if it is invalid or too long.
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MAX_CPUS || all.len() >= MAX_CPUS as usize {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

const FOLDER: &str = "/sys/devices/system/cpu";
/// The maximum of Linux.
const MAX_CPUS: u32 = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_parsed_and_invalid_ones_refused() {
        assert_eq!(cpu_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpu_list(""), Some(vec![]));
        for wrong in ["3-1", "0-4294967295", "x", "1,-2", &"0-8000,".repeat(100_000)] {
            assert_eq!(cpu_list(wrong), None);
        }
    }
}
