//! What a port does in a second, from two looks at its counters.
//!
//! A counter that went back (it wrapped, or was reset) has no rate for that interval, and a saturated one has none at
//! all: neither is zero.

use std::collections::{BTreeMap, BTreeSet};

use doctor::watch::Port;
use metric::Value;
use node::counters::{self, Counter, Folder};
use serde::Serialize;

use super::metrics::{self, First, Sum};

/// A port's results, in a second. What cannot be told is missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Rates {
    pub(super) receive: Direction,
    pub(super) transmit: Direction,
    pub(super) errors_per_second: Option<f64>,
    pub(super) congestion_per_second: Option<f64>,
    pub(super) ignored_per_second: Option<f64>,
    pub(super) wait_ticks_per_second: Option<f64>,
    pub(super) retries_per_second: Option<f64>,
    /// Saturated counters.
    pub(super) saturated: Vec<String>,
    /// Counters that are lower than they were.
    pub(super) went_back: Vec<String>,
}

/// One way of a port.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Direction {
    pub(super) bytes_per_second: Option<f64>,
    pub(super) packets_per_second: Option<f64>,
    /// Which part of what the port runs at.
    pub(super) share: Option<f64>,
}

/// The results of a port that was looked at so many seconds before.
pub(super) fn port(before: Option<&Port>, now: &Port, seconds: f64) -> Rates {
    let earlier = before.map_or(&[][..], |port| &port.counters);
    let Compared { pairs, saturated, went_back } = compare(earlier, &now.counters);
    let grown = Grown::new(&pairs, &now.counters, seconds);
    let way = |bytes: First, packets: First| {
        let bytes_per_second = grown.first(bytes);
        let most = now.rate_mbps.filter(|mbps| *mbps > 0).map(|mbps| mbps as f64 * 125_000.0);
        let share = bytes_per_second.zip(most).map(|(bytes, most)| bytes / most);
        Direction { bytes_per_second, packets_per_second: grown.first(packets), share }
    };
    Rates {
        receive: way(metrics::RECEIVE_BYTES, metrics::RECEIVE_PACKETS),
        transmit: way(metrics::TRANSMIT_BYTES, metrics::TRANSMIT_PACKETS),
        errors_per_second: grown.sum(metrics::ERRORS),
        congestion_per_second: grown.sum(metrics::CONGESTION),
        ignored_per_second: grown.sum(metrics::IGNORED),
        wait_ticks_per_second: grown.first(metrics::WAITING),
        retries_per_second: grown.sum(metrics::RETRIES),
        saturated,
        went_back,
    }
}

/// By how much something grew in a second; nothing where it went back, or no time has passed.
pub(super) fn growth(before: u64, now: u64, seconds: f64) -> Option<f64> {
    let grown = now.checked_sub(before)?;
    (seconds > 0.0).then(|| grown as f64 / seconds)
}

fn sample_growth(before: Value, now: Value, seconds: f64) -> Option<f64> {
    match (before, now) {
        (Value::Whole(before), Value::Whole(now)) => growth(before, now, seconds),
        _ => (seconds > 0.0).then(|| (now.real() - before.real()) / seconds),
    }
}

/// Counters that were read both times and still count.
struct Compared<'c> {
    /// Then and now.
    pairs: Vec<(&'c Counter, &'c Counter)>,
    saturated: Vec<String>,
    went_back: Vec<String>,
}

fn compare<'c>(before: &'c [Counter], now: &'c [Counter]) -> Compared<'c> {
    let earlier: BTreeMap<(Folder, &str), &Counter> = before
        .iter()
        .filter(|counter| counter.number().is_some())
        .map(|counter| ((counter.folder, counter.name.as_str()), counter))
        .collect();
    let mut all = Compared { pairs: Vec::new(), saturated: Vec::new(), went_back: Vec::new() };
    for counter in now.iter().filter(|counter| counter.number().is_some()) {
        if counter.is_saturated() {
            all.saturated.push(counter.name.clone());
            continue;
        }
        match earlier.get(&(counter.folder, counter.name.as_str())) {
            Some(then) if counter.went_back(then) => all.went_back.push(counter.name.clone()),
            Some(then) if then.number() <= counter.number() => all.pairs.push((then, counter)),
            _ => {}
        }
    }
    all
}

/// How metrics grew in a second.
struct Grown {
    rates: BTreeMap<&'static str, f64>,
    /// Metrics that the port has, with a rate or without.
    there: BTreeSet<&'static str>,
}

impl Grown {
    /// By the same files both times: one that is not there for once must not be taken for another. Statistics of net
    /// devices are added up over all priorities and both directions.
    fn new(pairs: &[(&Counter, &Counter)], now: &[Counter], seconds: f64) -> Grown {
        let then = counters::samples(pairs.iter().map(|(then, _)| *then));
        let later = counters::samples(pairs.iter().map(|(_, now)| *now));
        let mut rates = BTreeMap::new();
        for (then, now) in then.iter().zip(later) {
            if let Some(grown) = sample_growth(then.value, now.value, seconds) {
                *rates.entry(now.row.name()).or_default() += grown;
            }
        }
        let of_files = now.iter().filter(|counter| counter.folder != Folder::Ethtool);
        let there = counters::samples(of_files).iter().map(|sample| sample.row.name()).collect();
        Grown { rates, there }
    }

    fn first(&self, metrics: First) -> Option<f64> {
        let metric = metrics.iter().find(|metric| self.there.contains(*metric))?;
        self.rates.get(metric).copied()
    }

    /// Nothing where none of them has a rate.
    fn sum(&self, metrics: Sum) -> Option<f64> {
        let rates = metrics.iter().filter_map(|metric| self.rates.get(metric));
        rates.fold(None, |sum: Option<f64>, rate| Some(sum.unwrap_or(0.0) + rate))
    }
}

#[cfg(test)]
mod tests {
    use node::Seen;

    use super::*;

    fn counted(counts: &[(Folder, &str, u64)]) -> Port {
        let count = |(folder, name, value): &(Folder, &str, u64)| Counter {
            name: (*name).to_owned(),
            folder: *folder,
            value: Seen::Value(*value),
        };
        let counters = counts.iter().map(count).collect();
        Port { number: 1, rate_mbps: Some(100_000), counters, ..Port::default() }
    }

    fn data(words: u64) -> Port {
        counted(&[(Folder::Counters, "port_rcv_data", words)])
    }

    #[test]
    fn words_become_bytes_and_a_share_of_the_link() {
        let rates = port(Some(&data(1_000)), &data(1_000 + 3_125_000_000), 2.0);
        assert_eq!(rates.receive.bytes_per_second, Some(6.25e9));
        assert_eq!(rates.receive.share, Some(0.5));
        assert_eq!(rates.transmit, Direction::default(), "nothing tells what was sent");
    }

    #[test]
    fn a_counter_that_wrapped_or_was_set_back_gives_no_rate_and_then_goes_on() {
        let rates = port(Some(&data(9_000)), &data(10), 1.0);
        assert_eq!(rates.receive.bytes_per_second, None);
        assert_eq!(rates.went_back, ["port_rcv_data"]);
        let rates = port(Some(&data(10)), &data(20), 1.0);
        assert_eq!(rates.receive.bytes_per_second, Some(40.0));
        assert!(rates.went_back.is_empty());
    }

    #[test]
    fn a_saturated_counter_tells_nothing_and_is_named() {
        let full = counted(&[
            (Folder::Counters, "symbol_error", 65_535),
            (Folder::Counters, "port_rcv_errors", 4),
        ]);
        let rates = port(Some(&full), &full, 1.0);
        assert_eq!(rates.saturated, ["symbol_error"]);
        assert_eq!(rates.errors_per_second, Some(0.0), "the other still counts");
        let alone = counted(&[(Folder::Counters, "symbol_error", 65_535)]);
        assert_eq!(port(Some(&alone), &alone, 1.0).errors_per_second, None);
    }

    #[test]
    fn the_first_look_and_one_without_time_between_give_no_rate() {
        assert_eq!(port(None, &data(5), 1.0).receive, Direction::default());
        assert_eq!(port(Some(&data(5)), &data(6), 0.0).receive, Direction::default());
    }

    #[test]
    fn of_two_counters_of_one_metric_the_tables_first_counts() {
        let both = |words, bytes| {
            counted(&[
                (Folder::HwCounters, "rx_bytes", bytes),
                (Folder::Counters, "port_rcv_data", words),
            ])
        };
        let rates = port(Some(&both(0, 0)), &both(10, 7), 1.0);
        assert_eq!(rates.receive.bytes_per_second, Some(40.0));
    }

    #[test]
    fn pauses_of_all_priorities_are_signs_of_congestion() {
        let pauses = |three, four| {
            counted(&[
                (Folder::Ethtool, "rx_prio3_pause", three),
                (Folder::Ethtool, "tx_prio4_pause", four),
                (Folder::Ethtool, "rx_prio3_pause_duration", three * 1000),
            ])
        };
        let rates = port(Some(&pauses(0, 0)), &pauses(10, 4), 2.0);
        assert_eq!(rates.congestion_per_second, Some(7.0));
    }

    #[test]
    fn octets_by_both_versions_of_ip_are_one_measurement() {
        let octets = |four, six| {
            counted(&[
                (Folder::HwCounters, "ip4InOctets", four),
                (Folder::HwCounters, "ip6InOctets", six),
            ])
        };
        let rates = port(Some(&octets(0, 5)), &octets(100, 7), 1.0);
        assert_eq!(rates.receive.bytes_per_second, Some(102.0));
    }
}
