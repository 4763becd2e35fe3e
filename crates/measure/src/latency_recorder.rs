//! Records latencies in a histogram.

use hdrhistogram::Histogram;
use report::Latency;

use crate::ticks::Stopwatch;

/// Collects durations in ticks.
pub(crate) struct LatencyRecorder {
    histogram: Histogram<u64>,
    watch: Stopwatch,
}

impl LatencyRecorder {
    pub(crate) fn new() -> LatencyRecorder {
        // Cannot fail: the bounds are valid.
        let histogram = Histogram::new_with_bounds(1, MAX_TICKS, 3).expect("valid bounds");
        LatencyRecorder { histogram, watch: Stopwatch::start() }
    }

    #[inline]
    pub(crate) fn record(&mut self, ticks: u64) {
        self.histogram.saturating_record(ticks.max(1));
    }

    pub(crate) fn latency(&self) -> Latency {
        self.at_rate(self.watch.nanoseconds_per_tick())
    }

    fn at_rate(&self, nanoseconds_per_tick: f64) -> Latency {
        let histogram = &self.histogram;
        if histogram.is_empty() {
            return Latency::default();
        }
        let time = |ticks: u64| (ticks as f64 * nanoseconds_per_tick) as u64;
        let at = |quantile| time(histogram.value_at_quantile(quantile));
        let buckets = histogram.iter_quantiles(BUCKETS_PER_HALVING);
        let buckets = buckets.filter(|bucket| bucket.count_since_last_iteration() > 0);
        Latency {
            count: histogram.len(),
            min_ns: time(histogram.min()),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p99_9_ns: at(0.999),
            max_ns: time(histogram.max()),
            mean_ns: histogram.mean() * nanoseconds_per_tick,
            stdev_ns: histogram.stdev() * nanoseconds_per_tick,
            buckets: buckets
                .map(|bucket| {
                    (time(bucket.value_iterated_to()), bucket.count_since_last_iteration())
                })
                .collect(),
        }
    }
}

/// More than a minute at the tick rate of any CPU.
const MAX_TICKS: u64 = 600_000_000_000;
/// Buckets of the distribution for each halving of the remaining share.
const BUCKETS_PER_HALVING: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_jitter() {
        let mut recorder = LatencyRecorder::new();
        for microseconds in 1..=1000 {
            recorder.record(microseconds * 4000);
        }
        let latency = recorder.at_rate(0.25);
        let near = |value: u64, wanted: u64| value.abs_diff(wanted) * 500 <= wanted;
        assert!(near(latency.p50_ns, 500_000) && near(latency.p99_ns, 990_000), "{latency:?}");
        assert!(near(latency.jitter_ns(), 490_000) && latency.min_ns <= 1000, "{latency:?}");
        assert_eq!(latency.buckets.iter().map(|(_, count)| count).sum::<u64>(), 1000);
        assert_eq!(LatencyRecorder::new().latency(), Latency::default());
    }
}
