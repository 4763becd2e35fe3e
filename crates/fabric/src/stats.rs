//! The counters of a lane: written by the lane, readable by any thread.
//!
//! Always enabled. The lane is the only writer, so an increment is a load and a store, without a locked
//! instruction; the clock is read for one operation in [`OPS_PER_LATENCY_SAMPLE`]. `examples/stats.rs` measures the
//! cost.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::op::{Completion, Done, Failure, OpKind};

/// The counters of one lane.
#[derive(Debug, Default)]
pub struct Stats {
    kinds: [KindStats; OpKind::ALL.len()],
    failures: [AtomicU64; Failure::ALL.len()],
    latency: Histogram,
    /// Operations of the peer.
    peer_operations: AtomicU64,
    /// Zero, or one more than the index of the failure that ended the lane.
    ended: AtomicU64,
}

#[derive(Debug, Default)]
struct KindStats {
    operations: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
}

impl Stats {
    /// The number of successful operations of a kind.
    pub fn operations(&self, kind: OpKind) -> u64 {
        self.kinds[kind as usize].operations.load(Relaxed)
    }

    /// The bytes that they transferred.
    pub fn bytes(&self, kind: OpKind) -> u64 {
        self.kinds[kind as usize].bytes.load(Relaxed)
    }

    /// The number of failed operations of a kind, without those flushed when the lane ended.
    pub fn failed(&self, kind: OpKind) -> u64 {
        self.kinds[kind as usize].failed.load(Relaxed)
    }

    /// The number of operations that failed for this reason.
    pub fn failures(&self, failure: Failure) -> u64 {
        self.failures[failure as usize].load(Relaxed)
    }

    /// The time from post to completion, without receives; one operation in [`OPS_PER_LATENCY_SAMPLE`] is timed.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// The number of the peer's writes, reads and atomic operations that this end executed, where it must
    /// ([`Caps::peer_must_poll`](crate::Caps::peer_must_poll); over a link it executes all atomic operations). They have no completion here: who sleeps when there is no work counts them as
    /// work, so that the peer does not wait for a wake-up each time.
    #[inline]
    pub fn peer_operations(&self) -> u64 {
        self.peer_operations.load(Relaxed)
    }

    /// Counts operations of the peer.
    #[inline]
    pub(crate) fn add_peer_operations(&self, count: u64) {
        add(&self.peer_operations, count);
    }

    /// Why the lane ended, if it has: [`Failure::Flushed`] if it was closed by this end.
    pub fn ended(&self) -> Option<Failure> {
        let number = self.ended.load(Relaxed).checked_sub(1)?;
        Failure::ALL.get(number as usize).copied()
    }

    /// Records why the lane ended.
    ///
    /// For implementations of lanes, like `count` and `add_latency`.
    pub fn set_ended(&self, failure: Failure) {
        self.ended.store(failure as u64 + 1, Relaxed);
    }

    /// Counts a finished operation.
    #[inline]
    pub fn count(&self, completion: &Completion) {
        match &completion.outcome {
            Ok(done) => {
                let bytes = match done {
                    Done::Received { length, .. } => *length,
                    _ => completion.work.total(),
                };
                self.succeeded(completion.work.kind(), bytes as u64);
            }
            Err(failure) => {
                add(&self.failures[*failure as usize], 1);
                if *failure != Failure::Flushed {
                    add(&self.kinds[completion.work.kind() as usize].failed, 1);
                }
            }
        }
    }

    /// Counts a successful operation, or a packet.
    #[inline]
    pub(crate) fn succeeded(&self, kind: OpKind, bytes: u64) {
        let stats = &self.kinds[kind as usize];
        add(&stats.operations, 1);
        add(&stats.bytes, bytes);
    }

    /// Adds the counters of `other`. There must be no other writer.
    pub fn absorb(&self, other: &Stats) {
        for (ours, theirs) in self.kinds.iter().zip(&other.kinds) {
            add(&ours.operations, theirs.operations.load(Relaxed));
            add(&ours.bytes, theirs.bytes.load(Relaxed));
            add(&ours.failed, theirs.failed.load(Relaxed));
        }
        self.add_peer_operations(other.peer_operations());
        let counters = |stats| {
            let Stats { failures, latency, .. }: &Stats = stats;
            failures.iter().chain(&latency.buckets).chain([&latency.nanoseconds])
        };
        counters(self)
            .zip(counters(other))
            .for_each(|(ours, theirs)| add(ours, theirs.load(Relaxed)));
    }

    /// Adds the duration of an operation.
    #[inline]
    pub fn add_latency(&self, took: Duration) {
        self.latency.add(took);
    }
}

/// One operation in this many is timed.
pub const OPS_PER_LATENCY_SAMPLE: u64 = 32;

/// Not atomic: the lane is the only writer.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(count), Relaxed);
}

/// Durations in buckets, four for each power of two: values are precise to a quarter.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    /// The sum of all durations.
    nanoseconds: AtomicU64,
}

const BUCKETS: usize = 256;

impl Default for Histogram {
    fn default() -> Self {
        let buckets = [const { AtomicU64::new(0) }; BUCKETS];
        Histogram { buckets, nanoseconds: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Adds a duration. There must be no other writer.
    #[inline]
    pub fn add(&self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        add(&self.buckets[bucket(nanoseconds)], 1);
        add(&self.nanoseconds, nanoseconds);
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// The sum of all durations.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Relaxed))
    }

    /// Buckets by powers of two: the upper bound of each and its number of durations. For `bits` = 8 the bound is 255 ns. The
    /// first bucket includes all shorter durations; those above the last bound are only in `count`.
    pub fn powers_of_two(
        &self,
        bits: RangeInclusive<u32>,
    ) -> impl Iterator<Item = (Duration, u64)> {
        let mut from = 0;
        bits.map(move |bits| {
            let end = (1 << bits) - 1;
            let next = bucket(end) + 1;
            let inside = &self.buckets[from..next];
            from = next;
            (Duration::from_nanos(end), inside.iter().map(|bucket| bucket.load(Relaxed)).sum())
        })
    }

    /// The quantile `share` (0 to 1), rounded up to the end of its bucket. `None` if nothing was timed yet.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let wanted = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        self.buckets.iter().enumerate().find_map(|(at, bucket)| {
            seen += bucket.load(Relaxed);
            (seen >= wanted && count > 0).then(|| Duration::from_nanos(bucket_end(at)))
        })
    }
}

/// The bucket of a value: one for each value below eight, then four for each power of two.
#[inline]
fn bucket(value: u64) -> usize {
    if value < 8 {
        return value as usize;
    }
    let exponent = value.ilog2();
    let quarter = (value >> (exponent - 2)) & 3;
    ((exponent - 1) * 4 + quarter as u32) as usize
}

/// The largest value of a bucket.
fn bucket_end(at: usize) -> u64 {
    if at < 8 {
        return at as u64;
    }
    let (exponent, quarter) = (at as u32 / 4 + 1, at as u64 % 4);
    let width = 1u64 << (exponent - 2);
    (1u64 << exponent) + quarter * width + (width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_that_ends_at_or_after_it() {
        let values = (0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit) - 1, (1u64 << bit) + 1]);
        for value in values.chain(0..2000).chain([u64::MAX]) {
            let at = bucket(value);
            assert!(at < BUCKETS, "{value}");
            let end = bucket_end(at);
            assert!(end >= value && end - value <= value / 4, "{value} in a bucket up to {end}");
            assert_eq!(bucket(end), at);
        }
    }

    #[test]
    fn counts_are_added_up() {
        let (sum, lane) = (Stats::default(), Stats::default());
        lane.succeeded(OpKind::Read, 4096);
        lane.add_latency(Duration::from_nanos(700));
        (0..2).for_each(|_| sum.absorb(&lane));
        assert_eq!((sum.operations(OpKind::Read), sum.bytes(OpKind::Read)), (2, 8192));
        assert_eq!((sum.operations(OpKind::Write), sum.latency().count()), (0, 2));
        assert_eq!(sum.latency().sum(), Duration::from_nanos(1400));
    }

    #[test]
    fn quantiles_are_the_ends_of_their_buckets() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for nanoseconds in [5, 5, 5, 1000] {
            histogram.add(Duration::from_nanos(nanoseconds));
        }
        assert_eq!(histogram.quantile(0.5), Some(Duration::from_nanos(5)));
        assert_eq!(histogram.quantile(1.0), Some(Duration::from_nanos(1023)));
        assert_eq!(histogram.count(), 4);
        assert_eq!(histogram.sum(), Duration::from_nanos(1015));
    }

    #[test]
    fn powers_of_two_count_durations_up_to_their_bound() {
        let histogram = Histogram::default();
        for nanoseconds in [0, 255, 256, 511, 512, 1_000_000, (1 << 31) - 1, 1 << 31] {
            histogram.add(Duration::from_nanos(nanoseconds));
        }
        let full = histogram.powers_of_two(8..=31).filter(|(_, values)| *values > 0);
        let full: Vec<_> = full.map(|(end, values)| (end.as_nanos(), values)).collect();
        assert_eq!(full, [(255, 2), (511, 2), (1023, 1), ((1 << 20) - 1, 1), ((1 << 31) - 1, 1)]);
        assert_eq!(histogram.count(), 8, "the longest is above the last bound");
    }
}
