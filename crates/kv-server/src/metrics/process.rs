//! The resources that this process uses.

use std::fs;

use metric::Exposition;
use rustix::process::{Resource, getrlimit};

use super::rows;

/// Values that the kernel does not report are omitted.
pub(super) fn add(exposition: &mut Exposition, version: &str) {
    exposition.add(&rows::BUILD, &[("version", version)], 1_u64);
    if let Some(bytes) = resident() {
        exposition.add(&rows::RESIDENT, &[], bytes);
    }
    if let Some(seconds) = cpu() {
        exposition.add(&rows::CPU, &[], seconds);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        exposition.add(&rows::DESCRIPTORS, &[], open.count() as u64);
    }
    if let Some(max) = getrlimit(Resource::Nofile).current {
        exposition.add(&rows::DESCRIPTORS_MAX, &[], max);
    }
    if let Ok(threads) = fs::read_dir("/proc/self/task") {
        exposition.add(&rows::THREADS, &[], threads.count() as u64);
    }
}

/// The second number of statm, in pages; see proc_pid_statm(5).
fn resident() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// User and system time, in ticks; see proc_pid_stat(5). The name before them may have spaces.
fn cpu() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_has_used_time() {
        assert!(resident().is_some_and(|bytes| bytes > 1 << 20));
        assert!(cpu().is_some_and(|seconds| (0.0..1e6).contains(&seconds)));
    }
}
