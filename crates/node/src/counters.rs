//! Counters of ports and devices, and the table of their metrics.

mod sample;
mod table;

use std::collections::HashMap;
use std::sync::LazyLock;

use metric::Row;
use serde::{Deserialize, Serialize};

pub use crate::statistics::{Labels, STATISTICS, Statistic, statistic};
use crate::tree::Files;
use crate::{Reading, Tree};
pub use sample::{Sample, samples};
pub use table::TABLE;

/// A counter as it was read, used from its file to its metric. Its row is in [`TABLE`], and for
/// statistics of net devices in [`STATISTICS`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "CounterRecord")]
pub struct Counter {
    /// The file's name; for a statistic, the driver's.
    pub name: String,
    /// Its folder, or ethtool.
    #[serde(rename = "folder")]
    pub source: CounterSource,
    /// Its value, in the file's unit.
    pub value: Reading<u64>,
}

/// Where a counter is read: the folder of its file, or ethtool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterSource {
    /// `counters/`: InfiniBand's own, the same for every driver that has them.
    Counters,
    /// `hw_counters/`: the driver's.
    HwCounters,
    /// `counters_ext/`: the 64-bit ones of kernels before 4.5.
    CountersExt,
    /// Statistics of the net device, from ethtool: not a folder.
    Ethtool,
}

/// A row of [`TABLE`]: a counter file and its metric.
#[derive(Debug, Clone, Copy)]
pub struct KnownCounter {
    /// The folder: drivers have a `link_downed` of their own.
    pub source: CounterSource,
    /// The file's name.
    pub file: &'static str,
    /// The metric, without prefix: its name, unit and kind.
    pub row: Row,
    /// The factor from the file's unit to the metric's: 4 if the file counts words of four bytes.
    pub scale: u64,
    /// The width of the hardware counter in bits, at which it saturates; 0: never in practice.
    pub bits: u32,
}

impl Counter {
    /// Its value, if it is a number.
    pub fn number(&self) -> Option<u64> {
        self.value.value().copied()
    }

    /// Its value in its metric's unit: in bytes, if the file counts words of four bytes.
    pub fn scaled(&self) -> Option<u64> {
        let scale = self.known().map_or(1, |known| known.scale);
        self.number().map(|value| value.saturating_mul(scale))
    }

    /// Whether it is at the maximum of its hardware, and counts no more.
    pub fn is_saturated(&self) -> bool {
        self.known().zip(self.number()).is_some_and(|(known, value)| known.is_full(value))
    }

    /// Whether it only grows, and is lower than before: it wrapped, or was reset. False for counters without a row.
    pub fn decreased_since(&self, before: &Counter) -> bool {
        let is_lower = before.number().zip(self.number()).is_some_and(|(then, now)| now < then);
        is_lower && self.metric().is_some_and(|metric| metric.kind() == metric::Kind::Counter)
    }

    /// Its metric, if it has a row in one of the tables.
    pub fn metric(&self) -> Option<Row> {
        match self.source {
            CounterSource::Ethtool => statistic(&self.name).map(|(known, _)| known.row),
            _ => self.known().map(|known| known.row),
        }
    }

    /// Whether the driver does not have it: the file is missing, or reports that there is no performance management
    /// agent (`N/A (no PMA)`).
    pub fn is_missing(&self) -> bool {
        match &self.value {
            Reading::Absent => true,
            Reading::Invalid(text) => text.starts_with("N/A"),
            _ => false,
        }
    }

    /// Its row of the table.
    pub fn known(&self) -> Option<&'static KnownCounter> {
        known_counter(self.source, &self.name)
    }
}

/// A counter in JSON: recordings of 0.1 have `fault` if there is no value.
#[derive(Deserialize)]
struct CounterRecord {
    name: String,
    #[serde(rename = "folder")]
    source: CounterSource,
    #[serde(default = "absent")]
    value: Reading<u64>,
    fault: Option<String>,
}

impl From<CounterRecord> for Counter {
    fn from(CounterRecord { name, source, value, fault }: CounterRecord) -> Self {
        let value = fault.map_or(value, |fault| Reading::refused(&fault));
        Counter { name, source, value }
    }
}

fn absent() -> Reading<u64> {
    Reading::Absent
}

impl KnownCounter {
    /// Whether this is the maximum value of the hardware.
    pub fn is_full(&self, value: u64) -> bool {
        match self.bits {
            0 => false,
            64.. => value == u64::MAX,
            bits => value == (1 << bits) - 1,
        }
    }
}

/// A file's row of the table.
pub fn known_counter(source: CounterSource, file: &str) -> Option<&'static KnownCounter> {
    table_index(source, file).map(|at| &TABLE[at])
}

/// The index of a file's row in the table.
fn table_index(source: CounterSource, file: &str) -> Option<usize> {
    static INDICES: LazyLock<HashMap<(CounterSource, &str), usize>> = LazyLock::new(|| {
        TABLE.iter().enumerate().map(|(at, row)| ((row.source, row.file), at)).collect()
    });
    INDICES.get(&(source, file)).copied()
}

impl CounterSource {
    /// Folders that a port has, in the order in which they are read.
    pub const OF_PORTS: [CounterSource; 3] =
        [CounterSource::Counters, CounterSource::CountersExt, CounterSource::HwCounters];

    /// The name of the folder, or `ethtool`.
    pub fn name(self) -> &'static str {
        match self {
            CounterSource::Counters => "counters",
            CounterSource::HwCounters => "hw_counters",
            CounterSource::CountersExt => "counters_ext",
            CounterSource::Ethtool => "ethtool",
        }
    }
}

/// Reads the selected counters in a folder of a port or device.
pub(crate) fn read<'t, F: Files<'t>>(
    tree: &'t Tree,
    owner: &str,
    source: CounterSource,
    wanted: &mut dyn FnMut(CounterSource, &str) -> bool,
) -> Vec<Counter> {
    let Some(files) = F::open(tree, format!("{owner}/{}", source.name())) else {
        return Vec::new();
    };
    let mut names = files.names(MAX_COUNTERS);
    names.retain(|name| is_counter(name) && wanted(source, name));
    let counter = |name: String| {
        let value = files.text(&name).parse(|text| text.parse().ok());
        Counter { name, source, value }
    };
    names.into_iter().map(counter).collect()
}

/// Names may have spaces and commas (hfi1). `lifespan` is a setting: the maximum age of values.
fn is_counter(name: &str) -> bool {
    name != "lifespan" && name.len() <= MAX_NAME_BYTES && !name.contains(char::is_control)
}

/// hfi1 has hundreds.
const MAX_COUNTERS: usize = 4096;
const MAX_NAME_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(source: CounterSource, name: &str, value: u64) -> Counter {
        Counter { name: name.to_owned(), source, value: Reading::Value(value) }
    }

    #[test]
    fn counters_saturate_at_their_width() {
        let full = |name, value| counter(CounterSource::Counters, name, value).is_saturated();
        assert!(full("symbol_error", 65535) && !full("symbol_error", 65534));
        assert!(full("link_downed", 255) && full("local_link_integrity_errors", 15));
        assert!(full("port_xmit_wait", 4_294_967_295));
        assert!(full("port_rcv_data", 4_294_967_295) && !full("port_rcv_data", 4_294_967_296));
        assert!(!counter(CounterSource::HwCounters, "link_downed", 255).is_saturated());
        let none = Counter {
            name: "symbol_error".to_owned(),
            source: CounterSource::Counters,
            value: Reading::invalid("N/A (no PMA)"),
        };
        assert!(!none.is_saturated());
    }

    #[test]
    fn counters_are_parsed_also_from_recordings_of_0_1() {
        let invalid =
            Counter { value: Reading::invalid("many"), ..counter(CounterSource::Counters, "a", 1) };
        let refused = Counter { value: Reading::Refused(22), ..invalid.clone() };
        let absent = Counter { value: Reading::Absent, ..invalid.clone() };
        for known in [counter(CounterSource::HwCounters, "a", 7), invalid, refused.clone(), absent]
        {
            let text = serde_json::to_string(&known).expect("JSON");
            assert_eq!(serde_json::from_str::<Counter>(&text).expect("a counter"), known, "{text}");
        }
        let old = r#"{"folder":"counters","name":"a","fault":"EINVAL"}"#;
        assert_eq!(serde_json::from_str::<Counter>(old).expect("a counter"), refused);
        let old = r#"{"folder":"counters","name":"a","value":1}"#;
        assert_eq!(serde_json::from_str::<Counter>(old).expect("one").number(), Some(1));
    }

    #[test]
    fn settings_are_not_counters() {
        assert!(is_counter("Pio Reserved 30") && is_counter("CceMiscInt,32"));
        assert!(!is_counter("lifespan") && !is_counter("a\nb"));
    }
}
