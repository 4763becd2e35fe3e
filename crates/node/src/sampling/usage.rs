//! Usage of CPUs and memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Tree;

/// A sample of CPUs and memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// The number of CPUs online.
    pub cpus: Option<u32>,
    /// Seconds of all CPUs since boot, by mode: `user`, `system`, `idle`, `iowait`. Time of virtual machines is included
    /// in `user` and `nice`, so that the sum is the elapsed time.
    pub cpu_seconds: BTreeMap<String, f64>,
    /// Load average over one minute.
    pub load1: Option<f64>,
    /// Bytes of memory by kind: `total`, `available`, `free`, `cached`, `locked`.
    pub memory_bytes: BTreeMap<String, u64>,
}

impl Usage {
    /// Takes a sample.
    pub fn read(tree: &Tree) -> Usage {
        let text = |path: &str| tree.text(path).into_value().unwrap_or_default();
        Usage {
            cpus: crate::host::online_cpus(tree),
            cpu_seconds: cpu_seconds(&text("/proc/stat"), rustix::param::clock_ticks_per_second()),
            load1: load1(&text("/proc/loadavg")),
            memory_bytes: memory_bytes(&text("/proc/meminfo")),
        }
    }
}

/// The line of all CPUs together: ticks by mode, of which kernels before 2.6.11 have fewer.
fn cpu_seconds(stat: &str, ticks_per_second: u64) -> BTreeMap<String, f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    let ticks = line.unwrap_or_default().split_whitespace().map_while(|word| word.parse().ok());
    let seconds = |ticks: u64| ticks as f64 / ticks_per_second as f64;
    MODES.iter().zip(ticks).map(|(mode, ticks)| ((*mode).to_owned(), seconds(ticks))).collect()
}

fn load1(loadavg: &str) -> Option<f64> {
    let load: f64 = loadavg.split_whitespace().next()?.parse().ok()?;
    load.is_finite().then_some(load)
}

/// Huge pages are a count of pages, whose size is in the same file; all else is in kilobytes.
fn memory_bytes(meminfo: &str) -> BTreeMap<String, u64> {
    let number = |name: &str| {
        let mut fields = meminfo.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(field, _)| *field == name)?;
        value.split_whitespace().next()?.parse::<u64>().ok()
    };
    let kilobytes = MEMORY.iter().map(|(kind, field)| (kind, number(field), Some(1)));
    let pages = PAGES.iter().map(|(kind, field)| (kind, number(field), number("Hugepagesize")));
    let bytes = |count: Option<u64>, kilobytes: Option<u64>| {
        count?.checked_mul(kilobytes?)?.checked_mul(1024)
    };
    let one = |(kind, count, size): (&&str, _, _)| Some(((*kind).to_owned(), bytes(count, size)?));
    kilobytes.chain(pages).filter_map(one).collect()
}

/// CPU modes, in the order of the line.
const MODES: &[&str] = &["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

const MEMORY: &[(&str, &str)] = &[
    ("total", "MemTotal"),
    ("available", "MemAvailable"),
    ("free", "MemFree"),
    ("buffers", "Buffers"),
    ("cached", "Cached"),
    ("locked", "Mlocked"),
    ("unevictable", "Unevictable"),
    ("swap_total", "SwapTotal"),
    ("swap_free", "SwapFree"),
];

const PAGES: &[(&str, &str)] =
    &[("hugepages_total", "HugePages_Total"), ("hugepages_free", "HugePages_Free")];

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: serde_json::Value) -> Tree {
        let document = serde_json::json!({"format": "wirelane snapshot 1", "files": files});
        Tree::parse(document.to_string().as_bytes()).expect("a tree")
    }

    #[test]
    fn cpus_and_memory_are_parsed() {
        let usage = Usage::read(&tree(serde_json::json!({
            "/proc/stat": "cpu  6400 100 800 90000 50 0 20 30 400 0\ncpu0 6400 100 800 90000\n",
            "/proc/loadavg": "0.52 0.40 0.31 2/311 4242\n",
            "/proc/meminfo": "MemTotal:  1024 kB\nMemFree:  512 kB\nMlocked:  8 kB\n\
                              HugePages_Total:  3\nHugePages_Free:  1\nHugepagesize:  2048 kB\n",
            "/sys/devices/system/cpu/online": "0-3\n",
        })));
        assert_eq!((usage.cpus, usage.load1), (Some(4), Some(0.52)));
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(usage.cpu_seconds["idle"], 90000.0 / ticks);
        assert_eq!(usage.cpu_seconds["steal"], 30.0 / ticks);
        assert_eq!(usage.cpu_seconds.len(), 8, "guest time is part of user time");
        let memory = [("free", 512 << 10), ("locked", 8 << 10), ("total", 1 << 20)];
        let pages = [("hugepages_free", 2 << 20), ("hugepages_total", 6 << 20)];
        let expected = memory.into_iter().chain(pages).map(|(kind, size)| (kind.to_owned(), size));
        assert_eq!(usage.memory_bytes, expected.collect());
    }

    #[test]
    fn missing_and_invalid_values_are_left_out() {
        assert_eq!(Usage::read(&tree(serde_json::json!({}))), Usage::default());
        let invalid = Usage::read(&tree(serde_json::json!({
            "/proc/stat": "cpu  5 x 7\n",
            "/proc/loadavg": "NaN",
            "/proc/meminfo": "MemTotal: 18446744073709551615 kB\nMemFree\nCached: kB\n",
        })));
        assert_eq!(invalid.cpu_seconds.len(), 1);
        assert_eq!((invalid.load1, invalid.memory_bytes.len()), (None, 0));
    }

    #[test]
    fn this_machine_has_all_values() {
        let usage = Usage::read(&Tree::live(None));
        assert!(usage.cpus.is_some_and(|cpus| cpus > 0) && usage.load1.is_some());
        assert!(usage.cpu_seconds["idle"] >= 0.0 && usage.memory_bytes["total"] > 0);
    }
}
