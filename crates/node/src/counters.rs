//! Counters of ports and devices, and THE table of what they mean.

mod table;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use metric::Row;
use serde::{Deserialize, Serialize};

pub use crate::statistics::{Labels, STATISTICS, Statistic, statistic};
use crate::{Seen, Tree};
use table::SUMS;
pub use table::TABLE;

/// A counter's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counter {
    /// The file's name.
    pub name: String,
    /// Its folder.
    pub folder: Folder,
    /// What it reads.
    pub value: Seen<u64>,
}

/// Where a counter's file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Folder {
    /// `counters/`: InfiniBand's own, the same for every driver that has them.
    Counters,
    /// `hw_counters/`: the driver's.
    HwCounters,
    /// `counters_ext/`: the 64-bit ones of kernels before 4.5.
    CountersExt,
    /// No folder: the net device's statistics, by ethtool.
    Ethtool,
}

/// One counter: which file, what it means, and how to read it.
#[derive(Debug, Clone, Copy)]
pub struct Meaning {
    /// The file's folder: drivers count `link_downed` in a way of their own.
    pub folder: Folder,
    /// The file's name.
    pub file: &'static str,
    /// The metric, without prefix: its name, unit, and whether it counts up or tells how many there are now.
    pub row: Row,
    /// What one of the file's units is of the metric's: 4 where the file counts words of four bytes.
    pub scale: u64,
    /// How many bits the hardware has for it: there it stands still. 0: never in practice.
    pub bits: u32,
}

impl Counter {
    /// Whether it stands at the most that it can show, and counts no more.
    pub fn is_saturated(&self) -> bool {
        let value = self.value.value().copied();
        self.meaning().zip(value).is_some_and(|(meaning, value)| meaning.is_full(value))
    }

    /// Its row of the table.
    pub fn meaning(&self) -> Option<&'static Meaning> {
        meaning(self.folder, &self.name)
    }
}

impl Meaning {
    /// Whether a file that reads this stands at the most that it can show.
    pub fn is_full(&self, value: u64) -> bool {
        match self.bits {
            0 => false,
            64.. => value == u64::MAX,
            bits => value == (1 << bits) - 1,
        }
    }
}

/// A file's row of the table.
pub fn meaning(folder: Folder, file: &str) -> Option<&'static Meaning> {
    place(folder, file).map(|at| &TABLE[at])
}

/// Metrics of one port or device by what its files read, each once and in its own unit. Where two files have one
/// metric, the row that stands first in the table counts; what no file has as a whole is added up.
pub fn metrics<'c>(counts: impl Iterator<Item = (Folder, &'c str, u64)>) -> Vec<(Row, u64)> {
    let mut parts: HashMap<&'c str, u64> = HashMap::new();
    let mut told: Vec<(usize, u64)> = Vec::new();
    for (folder, file, value) in counts {
        if folder == Folder::HwCounters && is_part(file) {
            parts.insert(file, value);
        }
        if let Some(at) = place(folder, file) {
            told.push((at, value.saturating_mul(TABLE[at].scale)));
        }
    }
    told.sort_unstable();
    let mut known: HashSet<&str> = HashSet::new();
    let mut metrics: Vec<(Row, u64)> = Vec::with_capacity(told.len());
    metrics.extend(told.into_iter().map(|(at, value)| (TABLE[at].row, value)));
    metrics.retain(|(row, _)| known.insert(row.name()));
    let missing = SUMS.iter().filter(|sum| !known.contains(sum.row.name()));
    let sums = missing.filter_map(|sum| {
        let values = sum.of.iter().map(|file| parts.get(file).copied());
        values.sum::<Option<u64>>().map(|total| (sum.row, total))
    });
    metrics.extend(sums);
    metrics
}

fn is_part(file: &str) -> bool {
    SUMS.iter().any(|sum| sum.of.contains(&file))
}

/// Where a file's row is in the table.
fn place(folder: Folder, file: &str) -> Option<usize> {
    static PLACES: LazyLock<HashMap<(Folder, &str), usize>> = LazyLock::new(|| {
        TABLE.iter().enumerate().map(|(at, row)| ((row.folder, row.file), at)).collect()
    });
    PLACES.get(&(folder, file)).copied()
}

impl Folder {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Folder::Counters => "counters",
            Folder::HwCounters => "hw_counters",
            Folder::CountersExt => "counters_ext",
            Folder::Ethtool => "ethtool",
        }
    }
}

/// A port's counters.
pub(crate) fn read_port(tree: &Tree, port: &str) -> Vec<Counter> {
    let folders = [Folder::Counters, Folder::CountersExt, Folder::HwCounters].into_iter();
    folders.flat_map(|folder| read_folder(tree, port, folder)).collect()
}

/// A device's own counters.
pub(crate) fn read_device(tree: &Tree, device: &str) -> Vec<Counter> {
    read_folder(tree, device, Folder::HwCounters)
}

fn read_folder(tree: &Tree, of: &str, folder: Folder) -> Vec<Counter> {
    let path = format!("{of}/{}", folder.name());
    let names = tree.list(&path);
    let names = names.into_iter().filter(|name| is_counter(name)).take(MAX);
    names
        .map(|name| Counter { value: tree.number(&format!("{path}/{name}")), name, folder })
        .collect()
}

/// Names may have spaces and commas (hfi1). `lifespan` is a setting: how old a value may be.
pub(crate) fn is_counter(name: &str) -> bool {
    name != "lifespan" && name.len() <= LONGEST_NAME && !name.contains(char::is_control)
}

/// hfi1 has some hundreds.
pub(crate) const MAX: usize = 4096;
const LONGEST_NAME: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(folder: Folder, name: &str, value: u64) -> Counter {
        Counter { name: name.to_owned(), folder, value: Seen::Value(value) }
    }

    #[test]
    fn counters_stand_still_at_what_their_hardware_holds() {
        let full = |name, value| counter(Folder::Counters, name, value).is_saturated();
        assert!(full("symbol_error", 65535) && !full("symbol_error", 65534));
        assert!(full("link_downed", 255) && full("local_link_integrity_errors", 15));
        assert!(full("port_xmit_wait", 4_294_967_295));
        assert!(full("port_rcv_data", 4_294_967_295) && !full("port_rcv_data", 4_294_967_296));
        assert!(!counter(Folder::HwCounters, "link_downed", 255).is_saturated());
        let none = Counter {
            name: "symbol_error".to_owned(),
            folder: Folder::Counters,
            value: Seen::odd("N/A (no PMA)"),
        };
        assert!(!none.is_saturated());
    }

    #[test]
    fn bytes_are_told_once_whatever_files_a_driver_has() {
        use Folder::{Counters, CountersExt, HwCounters};
        let bytes = |counts: &[(Folder, &'static str, u64)]| {
            let metrics = metrics(counts.iter().copied());
            let name = "port_receive_bytes_total";
            let mut found = metrics.into_iter().filter(|(row, _)| row.name() == name);
            let first = found.next().map(|(_, value)| value);
            assert_eq!(found.next(), None, "told once");
            first
        };
        assert_eq!(bytes(&[(Counters, "port_rcv_data", 10)]), Some(40), "words");
        assert_eq!(bytes(&[(HwCounters, "rx_bytes", 10)]), Some(10), "bytes");
        assert_eq!(
            bytes(&[(HwCounters, "rx_bytes", 9), (Counters, "port_rcv_data", 10)]),
            Some(40)
        );
        let old =
            [(Counters, "port_rcv_data", u32::MAX.into()), (CountersExt, "port_rcv_data_64", 7)];
        assert_eq!(bytes(&old), Some(28), "the wide one of an old kernel");
        let both = [(HwCounters, "ip4InOctets", 3), (HwCounters, "ip6InOctets", 4)];
        assert_eq!(bytes(&both), Some(7), "irdma has no total");
        assert_eq!(bytes(&both[..1]), None, "half of it is not known");
        assert_eq!(bytes(&[(HwCounters, "rcvd_pkts", 1)]), None, "rxe counts no bytes");
    }

    #[test]
    fn a_setting_is_no_counter() {
        assert!(is_counter("Pio Reserved 30") && is_counter("CceMiscInt,32"));
        assert!(!is_counter("lifespan") && !is_counter("a\nb"));
    }
}
