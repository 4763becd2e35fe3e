//! Counters of ports and devices, and THE table of what they mean.

mod table;

use serde::Serialize;

use crate::{Seen, Tree};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Folder {
    /// `counters/`: InfiniBand's own, the same for every driver that has them.
    Counters,
    /// `hw_counters/`: the driver's.
    HwCounters,
    /// `counters_ext/`: the 64-bit ones of kernels before 4.5.
    CountersExt,
}

/// One counter: which file, what it means, and how to read it.
#[derive(Debug, Clone, Copy)]
pub struct Meaning {
    /// The file's folder: drivers count `link_downed` in a way of their own.
    pub folder: Folder,
    /// The file's name.
    pub file: &'static str,
    /// The metric's name without prefix, with its unit, ending in `_total` if it counts.
    pub metric: &'static str,
    /// One line on what it means.
    pub help: &'static str,
    /// What one of the file's units is of the metric's: 4 where the file counts words of four bytes.
    pub scale: u64,
    /// How many bits the hardware has for it: there it stands still. 0: never in practice.
    pub bits: u32,
    /// Whether it counts up, or tells how many there are now.
    pub kind: Kind,
}

/// What a file's number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It only grows.
    Counter,
    /// How many there are now.
    Gauge,
}

impl Counter {
    /// Whether it stands at the most that it can show, and counts no more.
    pub fn is_saturated(&self) -> bool {
        let most = self.meaning().map_or(0, |meaning| meaning.bits);
        let full = |value: u64| match most {
            0 => false,
            64.. => value == u64::MAX,
            bits => value == (1 << bits) - 1,
        };
        self.value.value().is_some_and(|value| full(*value))
    }

    /// Its row of the table.
    pub fn meaning(&self) -> Option<&'static Meaning> {
        TABLE.iter().find(|row| row.folder == self.folder && row.file == self.name)
    }
}

impl Folder {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Folder::Counters => "counters",
            Folder::HwCounters => "hw_counters",
            Folder::CountersExt => "counters_ext",
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
    let names = names.into_iter().filter(|name| is_counter(name)).take(MOST);
    names
        .map(|name| Counter { value: tree.number(&format!("{path}/{name}")), name, folder })
        .collect()
}

/// Names may have spaces and commas (hfi1). `lifespan` is a setting: how old a value may be.
fn is_counter(name: &str) -> bool {
    name != "lifespan" && name.len() <= LONGEST_NAME && !name.contains(char::is_control)
}

/// hfi1 has some hundreds.
const MOST: usize = 4096;
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
    fn a_setting_is_no_counter() {
        assert!(is_counter("Pio Reserved 30") && is_counter("CceMiscInt,32"));
        assert!(!is_counter("lifespan") && !is_counter("a\nb"));
    }
}
