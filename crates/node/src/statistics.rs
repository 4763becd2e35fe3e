//! Statistics of net devices (ethtool) and their meaning: [`STATISTICS`] is the table, [`statistic`] finds a row.

mod table;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use metric::Row;

pub use table::STATISTICS;

/// A statistic: the driver's name and its metric.
#[derive(Debug, Clone, Copy)]
pub struct Statistic {
    /// The driver's name, with `#` for a number: `rx_prio#_pause`.
    pub name: &'static str,
    /// The metric, without prefix.
    pub row: Row,
    /// The metric's labels, with `#` for the number in the name.
    pub labels: &'static [(&'static str, &'static str)],
    /// The number of the driver's units in one of the metric's: a million, if it counts microseconds.
    pub per: u32,
}

impl Statistic {
    /// Converts the driver's value to the metric's unit.
    pub fn scaled(&self, value: u64) -> f64 {
        value as f64 / f64::from(self.per)
    }

    /// The labels of the metric, with the number in the name.
    fn labels(&self, number: &str) -> Labels {
        let value = |value: &str| value.replace('#', number);
        self.labels.iter().map(|(label, text)| (*label, value(text))).collect()
    }
}

/// Names and values of a metric's labels.
pub type Labels = Vec<(&'static str, String)>;

/// The row for a driver's name of a statistic, with its labels; `None` if it is not known.
pub fn statistic(name: &str) -> Option<(&'static Statistic, Labels)> {
    static KNOWN: LazyLock<HashMap<&str, &Statistic>> =
        LazyLock::new(|| STATISTICS.iter().map(|known| (known.name, known)).collect());
    let (pattern, number) = pattern(name)?;
    let known = KNOWN.get(pattern.as_ref())?;
    Some((known, known.labels(number)))
}

/// The name with `#` for the number in it, and the number.
fn pattern(name: &str) -> Option<(Cow<'_, str>, &str)> {
    let is_digit = |letter: char| letter.is_ascii_digit();
    if name.contains('#') {
        return None;
    }
    let Some(start) = name.find(is_digit) else { return Some((name.into(), "")) };
    let (before, rest) = name.split_at(start);
    let after = rest.trim_start_matches(is_digit);
    let number = &rest[..rest.len() - after.len()];
    (number.len() <= MAX_DIGITS).then(|| (format!("{before}#{after}").into(), number))
}

/// Digits of a priority or lane.
const MAX_DIGITS: usize = 3;

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn metric(name: &str) -> Option<String> {
        let (statistic, labels) = statistic(name)?;
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Some(format!("{}{{{}}}", statistic.row.name(), labels.join(",")))
    }

    #[test]
    fn direction_and_priority_become_labels_for_every_driver() {
        let pause = "port_priority_pause_frames_total{direction=receive,priority=3}";
        for name in [
            "rx_prio3_pause",
            "rx_pfc_ena_frames_pri3",
            "rx_priority_3_xoff.nic",
            "rx_pause_prio_3",
        ] {
            assert_eq!(metric(name).as_deref(), Some(pause), "{name}");
        }
        assert_eq!(
            metric("rx_err_lane_2_phy").as_deref(),
            Some("port_wire_lane_corrections_total{lane=2}")
        );
        assert_eq!(metric("link_down_events_phy").as_deref(), Some("port_wire_link_downs_total{}"));
    }

    #[test]
    fn names_of_queues_and_unknown_ones_have_no_metric() {
        for name in [
            "rx_prio_pause",
            "rx_prioA_pause",
            "rx_prio1234_pause",
            "rx12_packets",
            "",
            "rx_prio3_pause_x",
            "rx_prio#_pause",
        ] {
            assert_eq!(metric(name), None, "{name}");
        }
    }

    #[test]
    fn durations_are_seconds_and_percentages_are_ratios() {
        let scaled =
            |name: &str, value| statistic(name).map(|(statistic, _)| statistic.scaled(value));
        assert_eq!(scaled("rx_prio3_pause_duration", 1_500_000), Some(1.5));
        assert_eq!(scaled("outbound_pci_stalled_wr", 30), Some(0.3));
        assert_eq!(scaled("outbound_pci_stalled_wr_events", 30), Some(30.0));
    }

    #[test]
    fn names_are_unique_and_a_metric_has_one_meaning_and_one_set_of_labels() {
        let mut names = BTreeSet::new();
        let mut known: BTreeMap<&str, &Statistic> = BTreeMap::new();
        for row in STATISTICS {
            assert!(names.insert(row.name), "duplicate {}", row.name);
            assert!(!row.name.contains(|letter: char| letter.is_ascii_digit()), "{}", row.name);
            let first = known.entry(row.row.name()).or_insert(row);
            let labels =
                |row: &Statistic| row.labels.iter().map(|(name, _)| *name).collect::<Vec<_>>();
            assert_eq!(first.row, row.row, "{}", row.name);
            assert_eq!(labels(first), labels(row), "{}", row.name);
            let has_number = row.labels.iter().any(|(_, value)| *value == "#");
            assert_eq!(row.name.contains('#'), has_number, "{}", row.name);
        }
        let of_files = crate::counters::TABLE.iter().map(|row| row.row.name());
        assert!(of_files.into_iter().all(|name| !known.contains_key(name)), "files have it too");
    }
}
