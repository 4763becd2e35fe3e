//! Chooses the next request.

use super::pattern::mix;

/// How keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dist {
    Uniform,
    /// The n-th key has a weight of 1/n^0.99.
    Zipf,
}

impl Dist {
    pub(super) fn name(self) -> &'static str {
        match self {
            Dist::Uniform => "uniform",
            Dist::Zipf => "zipf",
        }
    }
}

/// Chooses keys, and between get and put. The same seed gives the same sequence.
#[derive(Debug)]
pub(super) struct Workload {
    state: u64,
    keys: u32,
    /// Of 2^32.
    reads: u64,
    /// One row per key; empty for a uniform distribution.
    table: Vec<AliasRow>,
}

/// A row of the alias method: below the threshold the row's own key, else its alias.
#[derive(Debug, Clone, Copy)]
struct AliasRow {
    /// Of 2^32.
    threshold: u64,
    alias: u32,
}

impl Workload {
    pub(super) fn new(dist: Dist, keys: u32, read_ratio: f64, seed: u64) -> Self {
        let table = match dist {
            Dist::Uniform => Vec::new(),
            Dist::Zipf => alias_table((1..=keys).map(|n| f64::from(n).powf(-THETA)).collect()),
        };
        Workload { state: mix(seed), keys, reads: (read_ratio * SCALE) as u64, table }
    }

    #[inline]
    pub(super) fn key(&mut self) -> u32 {
        let number = self.next();
        let (high, low) = (number >> 32, number & u64::from(u32::MAX));
        let key = ((high * u64::from(self.keys)) >> 32) as u32;
        match self.table.get(key as usize) {
            Some(row) if low >= row.threshold => row.alias,
            _ => key,
        }
    }

    #[inline]
    pub(super) fn is_read(&mut self) -> bool {
        self.next() >> 32 < self.reads
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(1);
        mix(self.state)
    }
}

/// Vose's version of Walker's alias method: any distribution with one table access.
fn alias_table(mut weights: Vec<f64>) -> Vec<AliasRow> {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    weights.iter_mut().for_each(|weight| *weight /= mean);
    let mut rows: Vec<AliasRow> = (0..weights.len())
        .map(|at| AliasRow { threshold: SCALE as u64, alias: at as u32 })
        .collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|at| weights[*at] < 1.0);
    while let (Some(low), Some(high)) = (small.pop(), large.last().copied()) {
        rows[low] = AliasRow { threshold: (weights[low] * SCALE) as u64, alias: high as u32 };
        weights[high] -= 1.0 - weights[low];
        if weights[high] < 1.0 {
            small.extend(large.pop());
        }
    }
    rows
}

/// As in YCSB.
const THETA: f64 = 0.99;
const SCALE: f64 = 4_294_967_296.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(dist: Dist, keys: u32) -> Vec<f64> {
        let mut workload = Workload::new(dist, keys, 0.5, 1);
        let mut counts = vec![0.0; keys as usize];
        (0..1_000_000).for_each(|_| counts[workload.key() as usize] += 1e-6);
        counts
    }

    #[test]
    fn uniform_keys_are_equally_frequent() {
        assert!(counts(Dist::Uniform, 10).iter().all(|share| (share - 0.1).abs() < 0.01));
    }

    #[test]
    fn zipf_prefers_the_first_keys() {
        let sum: f64 = (1..=1000).map(|n| f64::from(n).powf(-THETA)).sum();
        let counts = counts(Dist::Zipf, 1000);
        for n in [1, 2, 10, 100] {
            let expected = f64::from(n).powf(-THETA) / sum;
            let share = counts[n as usize - 1];
            assert!((share / expected - 1.0).abs() < 0.1, "{n}: {share} instead of {expected}");
        }
    }

    #[test]
    fn the_read_ratio_is_met() {
        for ratio in [0.0, 0.25, 1.0] {
            let mut workload = Workload::new(Dist::Uniform, 1, ratio, 9);
            let reads = (0..100_000).filter(|_| workload.is_read()).count() as f64 / 1e5;
            assert!((reads - ratio).abs() < 0.01, "{reads} instead of {ratio}");
        }
    }
}
