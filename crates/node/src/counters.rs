//! Counters of ports and devices, and THE table of what they mean.

use serde::Serialize;

use crate::Seen;

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
        TABLE.iter().find(|row| row.file == self.name)
    }
}

/// Every counter that is known.
pub const TABLE: &[Meaning] = &[];
