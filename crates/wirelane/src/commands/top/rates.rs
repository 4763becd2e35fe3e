//! Rates of a port, from two readings of its counters.
//!
//! A counter that went back (it wrapped, or was reset) has no rate for that interval, and a saturated one never has:
//! neither is zero.

use std::collections::{BTreeMap, BTreeSet};

use doctor::monitoring::SampledPort;
use metric::Value;
use node::counters::{self, Counter, CounterSource};
use serde::Serialize;

use super::metrics::{self, FirstOf, SumOf};

/// Rates of a port, per second. `None` if unknown.
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
    /// Counters that are lower than before.
    pub(super) decreases: Vec<String>,
}

/// One direction of a port.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Direction {
    pub(super) bytes_per_second: Option<f64>,
    pub(super) packets_per_second: Option<f64>,
    /// Share of the port's rate.
    pub(super) share: Option<f64>,
}

/// Rates of a port between two readings, `seconds` apart.
pub(super) fn port(before: Option<&SampledPort>, now: &SampledPort, seconds: f64) -> Rates {
    let earlier = before.map_or(&[][..], |port| &port.counters);
    let CounterPairs { pairs, saturated, decreases } = compare(earlier, &now.counters);
    let rates = MetricRates::new(&pairs, &now.counters, seconds);
    let direction = |bytes: FirstOf, packets: FirstOf| {
        let bytes_per_second = rates.first(bytes);
        let max = now.rate_mbps.filter(|mbps| *mbps > 0).map(|mbps| mbps as f64 * 125_000.0);
        let share = bytes_per_second.zip(max).map(|(bytes, max)| bytes / max);
        Direction { bytes_per_second, packets_per_second: rates.first(packets), share }
    };
    Rates {
        receive: direction(metrics::RECEIVE_BYTES, metrics::RECEIVE_PACKETS),
        transmit: direction(metrics::TRANSMIT_BYTES, metrics::TRANSMIT_PACKETS),
        errors_per_second: rates.sum(metrics::ERRORS),
        congestion_per_second: rates.sum(metrics::CONGESTION),
        ignored_per_second: rates.sum(metrics::IGNORED_CNPS),
        wait_ticks_per_second: rates.first(metrics::TRANSMIT_WAIT),
        retries_per_second: rates.sum(metrics::RETRIES),
        saturated,
        decreases,
    }
}

/// Growth per second; `None` if the value went back, or no time has passed.
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

/// Counters of two readings, compared.
struct CounterPairs<'c> {
    /// Counters with a rate: before and now.
    pairs: Vec<(&'c Counter, &'c Counter)>,
    saturated: Vec<String>,
    decreases: Vec<String>,
}

fn compare<'c>(before: &'c [Counter], now: &'c [Counter]) -> CounterPairs<'c> {
    let earlier: BTreeMap<(CounterSource, &str), &Counter> = before
        .iter()
        .filter(|counter| counter.number().is_some())
        .map(|counter| ((counter.source, counter.name.as_str()), counter))
        .collect();
    let mut all = CounterPairs { pairs: Vec::new(), saturated: Vec::new(), decreases: Vec::new() };
    for counter in now.iter().filter(|counter| counter.number().is_some()) {
        if counter.is_saturated() {
            all.saturated.push(counter.name.clone());
            continue;
        }
        match earlier.get(&(counter.source, counter.name.as_str())) {
            Some(then) if counter.decreased_since(then) => all.decreases.push(counter.name.clone()),
            Some(then) if then.number() <= counter.number() => all.pairs.push((then, counter)),
            _ => {}
        }
    }
    all
}

/// Growth of metrics per second.
struct MetricRates {
    rates: BTreeMap<&'static str, f64>,
    /// Metrics that the port has, with or without a rate.
    present: BTreeSet<&'static str>,
}

impl MetricRates {
    /// Uses the files that are in both readings: a file that is missing once must not be confused with another.
    /// Statistics of net devices are summed over all priorities and both directions.
    fn new(pairs: &[(&Counter, &Counter)], now: &[Counter], seconds: f64) -> MetricRates {
        let then = counters::samples(pairs.iter().map(|(then, _)| *then));
        let later = counters::samples(pairs.iter().map(|(_, now)| *now));
        let mut rates = BTreeMap::new();
        for (then, now) in then.iter().zip(later) {
            if let Some(grown) = sample_growth(then.value, now.value, seconds) {
                *rates.entry(now.row.name()).or_default() += grown;
            }
        }
        let of_files = now.iter().filter(|counter| counter.source != CounterSource::Ethtool);
        let present = counters::samples(of_files).iter().map(|sample| sample.row.name()).collect();
        MetricRates { rates, present }
    }

    fn first(&self, metrics: FirstOf) -> Option<f64> {
        let metric = metrics.iter().find(|metric| self.present.contains(*metric))?;
        self.rates.get(metric).copied()
    }

    /// `None` if none of them has a rate.
    fn sum(&self, metrics: SumOf) -> Option<f64> {
        let rates = metrics.iter().filter_map(|metric| self.rates.get(metric));
        rates.fold(None, |sum: Option<f64>, rate| Some(sum.unwrap_or(0.0) + rate))
    }
}

#[cfg(test)]
mod tests {
    use node::Reading;

    use super::*;

    fn counted(counts: &[(CounterSource, &str, u64)]) -> SampledPort {
        let count = |(source, name, value): &(CounterSource, &str, u64)| Counter {
            name: (*name).to_owned(),
            source: *source,
            value: Reading::Value(*value),
        };
        let counters = counts.iter().map(count).collect();
        SampledPort { number: 1, rate_mbps: Some(100_000), counters, ..SampledPort::default() }
    }

    fn data(words: u64) -> SampledPort {
        counted(&[(CounterSource::Counters, "port_rcv_data", words)])
    }

    #[test]
    fn words_are_converted_to_bytes_and_a_share_of_the_link() {
        let rates = port(Some(&data(1_000)), &data(1_000 + 3_125_000_000), 2.0);
        assert_eq!(rates.receive.bytes_per_second, Some(6.25e9));
        assert_eq!(rates.receive.share, Some(0.5));
        assert_eq!(rates.transmit, Direction::default(), "no counter of sent bytes");
    }

    #[test]
    fn a_counter_that_went_back_has_no_rate_for_one_interval() {
        let rates = port(Some(&data(9_000)), &data(10), 1.0);
        assert_eq!(rates.receive.bytes_per_second, None);
        assert_eq!(rates.decreases, ["port_rcv_data"]);
        let rates = port(Some(&data(10)), &data(20), 1.0);
        assert_eq!(rates.receive.bytes_per_second, Some(40.0));
        assert!(rates.decreases.is_empty());
    }

    #[test]
    fn a_saturated_counter_has_no_rate_and_is_listed() {
        let full = counted(&[
            (CounterSource::Counters, "symbol_error", 65_535),
            (CounterSource::Counters, "port_rcv_errors", 4),
        ]);
        let rates = port(Some(&full), &full, 1.0);
        assert_eq!(rates.saturated, ["symbol_error"]);
        assert_eq!(rates.errors_per_second, Some(0.0), "the other still counts");
        let alone = counted(&[(CounterSource::Counters, "symbol_error", 65_535)]);
        assert_eq!(port(Some(&alone), &alone, 1.0).errors_per_second, None);
    }

    #[test]
    fn the_first_reading_and_one_at_the_same_time_have_no_rate() {
        assert_eq!(port(None, &data(5), 1.0).receive, Direction::default());
        assert_eq!(port(Some(&data(5)), &data(6), 0.0).receive, Direction::default());
    }

    #[test]
    fn the_first_counter_of_a_metric_in_the_table_is_used() {
        let both = |words, bytes| {
            counted(&[
                (CounterSource::HwCounters, "rx_bytes", bytes),
                (CounterSource::Counters, "port_rcv_data", words),
            ])
        };
        let rates = port(Some(&both(0, 0)), &both(10, 7), 1.0);
        assert_eq!(rates.receive.bytes_per_second, Some(40.0));
    }

    #[test]
    fn pause_frames_of_all_priorities_count_as_congestion() {
        let pauses = |three, four| {
            counted(&[
                (CounterSource::Ethtool, "rx_prio3_pause", three),
                (CounterSource::Ethtool, "tx_prio4_pause", four),
                (CounterSource::Ethtool, "rx_prio3_pause_duration", three * 1000),
            ])
        };
        let rates = port(Some(&pauses(0, 0)), &pauses(10, 4), 2.0);
        assert_eq!(rates.congestion_per_second, Some(7.0));
    }

    #[test]
    fn octets_of_ipv4_and_ipv6_are_summed() {
        let octets = |four, six| {
            counted(&[
                (CounterSource::HwCounters, "ip4InOctets", four),
                (CounterSource::HwCounters, "ip6InOctets", six),
            ])
        };
        let rates = port(Some(&octets(0, 5)), &octets(100, 7), 1.0);
        assert_eq!(rates.receive.bytes_per_second, Some(102.0));
    }
}
