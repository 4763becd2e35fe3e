//! Converts counters to metrics.

use std::collections::{HashMap, HashSet};

use metric::{Row, Value};

use super::table::SUMS;
use super::{Counter, CounterSource, Labels, TABLE, statistic, table_index};

/// A metric's value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The metric.
    pub row: Row,
    /// Its labels, besides device and port.
    pub labels: Labels,
    /// In the metric's unit.
    pub value: Value,
}

impl Sample {
    fn whole(row: Row, value: u64) -> Sample {
        Sample { row, labels: Labels::new(), value: Value::Whole(value) }
    }
}

/// Converts the counters of one port or device to metrics, each once and in the metric's unit. If two files have the same
/// metric, the first row of the table is used; totals that no file has are summed. Counters without a
/// value or without a row have no sample.
pub fn samples<'c>(counters: impl IntoIterator<Item = &'c Counter>) -> Vec<Sample> {
    let mut parts: HashMap<&'c str, u64> = HashMap::new();
    let mut from_files: Vec<(usize, u64)> = Vec::new();
    let mut from_ethtool: Vec<Sample> = Vec::new();
    for counter in counters {
        let Some(value) = counter.number() else { continue };
        if counter.source == CounterSource::Ethtool {
            from_ethtool.extend(statistic_sample(&counter.name, value));
            continue;
        }
        if counter.source == CounterSource::HwCounters && is_part(&counter.name) {
            parts.insert(&counter.name, value);
        }
        if let Some(at) = table_index(counter.source, &counter.name) {
            from_files.push((at, value.saturating_mul(TABLE[at].scale)));
        }
    }
    from_files.sort_unstable();
    let mut known: HashSet<&str> = HashSet::new();
    let mut samples: Vec<Sample> = Vec::with_capacity(from_files.len() + from_ethtool.len());
    samples.extend(from_files.into_iter().map(|(at, value)| Sample::whole(TABLE[at].row, value)));
    samples.retain(|sample| known.insert(sample.row.name()));
    let missing = SUMS.iter().filter(|sum| !known.contains(sum.row.name()));
    samples.extend(missing.filter_map(|sum| {
        let values = sum.files.iter().map(|file| parts.get(file).copied());
        values.sum::<Option<u64>>().map(|total| Sample::whole(sum.row, total))
    }));
    // Prometheus rejects a whole scrape with a duplicate series, as from a driver with two names for one statistic.
    let mut series: HashSet<(&str, Labels)> = HashSet::new();
    from_ethtool.retain(|sample| series.insert((sample.row.name(), sample.labels.clone())));
    samples.extend(from_ethtool);
    samples
}

fn statistic_sample(name: &str, value: u64) -> Option<Sample> {
    let (known, labels) = statistic(name)?;
    let value = match known.per {
        1 => Value::Whole(value),
        _ => Value::Real(known.scaled(value)),
    };
    Some(Sample { row: known.row, labels, value })
}

fn is_part(file: &str) -> bool {
    SUMS.iter().any(|sum| sum.files.contains(&file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reading;

    fn counter(source: CounterSource, name: &str, value: u64) -> Counter {
        Counter { name: name.to_owned(), source, value: Reading::Value(value) }
    }

    #[test]
    fn bytes_are_exported_once_for_every_driver() {
        use CounterSource::{Counters, CountersExt, HwCounters};
        let bytes = |counts: &[(CounterSource, &'static str, u64)]| {
            let counters: Vec<Counter> =
                counts.iter().map(|(source, name, value)| counter(*source, name, *value)).collect();
            let name = "port_receive_bytes_total";
            let mut found = samples(&counters).into_iter().filter(|known| known.row.name() == name);
            let first = found.next().map(|sample| sample.value);
            assert_eq!(found.next(), None, "once");
            first.map(|value| match value {
                Value::Whole(value) => value,
                Value::Real(value) => panic!("{value} is not exact"),
            })
        };
        assert_eq!(bytes(&[(Counters, "port_rcv_data", 10)]), Some(40), "words");
        assert_eq!(bytes(&[(HwCounters, "rx_bytes", 10)]), Some(10), "bytes");
        assert_eq!(
            bytes(&[(HwCounters, "rx_bytes", 9), (Counters, "port_rcv_data", 10)]),
            Some(40)
        );
        let old =
            [(Counters, "port_rcv_data", u32::MAX.into()), (CountersExt, "port_rcv_data_64", 7)];
        assert_eq!(bytes(&old), Some(28), "the 64-bit one of an old kernel");
        let both = [(HwCounters, "ip4InOctets", 3), (HwCounters, "ip6InOctets", 4)];
        assert_eq!(bytes(&both), Some(7), "irdma has no total");
        assert_eq!(bytes(&both[..1]), None, "one half is not known");
        assert_eq!(bytes(&[(HwCounters, "rcvd_pkts", 1)]), None, "rxe counts no bytes");
    }

    #[test]
    fn statistics_have_labels_and_the_unit_of_their_metric() {
        let counters = [
            counter(CounterSource::Ethtool, "rx_prio3_pause_duration", 1_500_000),
            counter(CounterSource::Ethtool, "rx_prio3_pause", 7),
            counter(CounterSource::Ethtool, "no such statistic", 1),
        ];
        let values: Vec<Value> = samples(&counters).iter().map(|sample| sample.value).collect();
        assert_eq!(values, [Value::Real(1.5), Value::Whole(7)]);
    }
}
