//! Counters and latencies of one client, or of all.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Counters and latencies.
pub(super) struct Tally {
    pub(super) ops: u64,
    pub(super) errors: u64,
    /// Values that were read and verified.
    pub(super) verified: u64,
    pub(super) first_error: Option<String>,
    /// In nanoseconds.
    times: Histogram<u64>,
}

impl Tally {
    pub(super) fn new() -> Self {
        let times = Histogram::new_with_bounds(1, MAX_LATENCY_NS, DIGITS).expect("bounds that fit");
        Tally { ops: 0, errors: 0, verified: 0, first_error: None, times }
    }

    #[inline]
    pub(super) fn record(&mut self, time: Duration) {
        self.ops += 1;
        self.times.saturating_record(time.as_nanos() as u64);
    }

    #[cold]
    pub(super) fn error(&mut self, why: String) {
        self.errors += 1;
        self.first_error.get_or_insert(why);
    }

    /// Resets everything but errors.
    pub(super) fn reset(&mut self) {
        (self.ops, self.verified) = (0, 0);
        self.times.reset();
    }

    pub(super) fn add(&mut self, other: Tally) {
        self.ops += other.ops;
        self.errors += other.errors;
        self.verified += other.verified;
        self.first_error = self.first_error.take().or(other.first_error);
        self.times.add(&other.times).expect("the same bounds");
    }

    /// A quantile (0.0 to 1.0) of the latency, in microseconds.
    pub(super) fn quantile_us(&self, quantile: f64) -> f64 {
        self.times.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// An hour: with a schedule, a request may wait much longer than a timeout.
const MAX_LATENCY_NS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;
