//! A histogram of durations.

use hdrhistogram::Histogram;
use report::Latency;

use crate::ticks::Stopwatch;

/// Collects durations in ticks.
pub(crate) struct Clock {
    histogram: Histogram<u64>,
    watch: Stopwatch,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        // Three digits of up to minutes cannot be refused.
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3).expect("bounds that are right");
        Clock { histogram, watch: Stopwatch::start() }
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
        let steps = histogram.iter_quantiles(STEPS);
        let steps = steps.filter(|step| step.count_since_last_iteration() > 0);
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
            steps: steps
                .map(|step| (time(step.value_iterated_to()), step.count_since_last_iteration()))
                .collect(),
        }
    }
}

/// A minute and more, of ticks of any CPU.
const LONGEST: u64 = 600_000_000_000;
/// Steps to each halving of what is left above.
const STEPS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_jitter() {
        let mut clock = Clock::new();
        for microseconds in 1..=1000 {
            clock.record(microseconds * 4000);
        }
        let latency = clock.at_rate(0.25);
        let near = |value: u64, wanted: u64| value.abs_diff(wanted) * 500 <= wanted;
        assert!(near(latency.p50_ns, 500_000) && near(latency.p99_ns, 990_000), "{latency:?}");
        assert!(near(latency.jitter_ns(), 490_000) && latency.min_ns <= 1000, "{latency:?}");
        assert_eq!(latency.steps.iter().map(|(_, count)| count).sum::<u64>(), 1000);
        assert_eq!(Clock::new().latency(), Latency::default());
    }
}
