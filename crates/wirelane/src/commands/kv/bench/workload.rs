//! Which key is asked for next.

use super::pattern::mix;

/// How keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dist {
    Uniform,
    /// The n-th key is asked for in proportion to 1/n^0.99.
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

/// Chooses keys, and between fetching and storing. The same seed chooses the same.
#[derive(Debug)]
pub(super) struct Choice {
    state: u64,
    keys: u32,
    /// Of 2^32.
    reads: u64,
    /// One row a key; none: all alike.
    table: Vec<Row>,
}

/// Keys in equal shares: each keeps its share up to a limit, and lends the rest to one other.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Of 2^32.
    keeps: u64,
    other: u32,
}

impl Choice {
    pub(super) fn new(dist: Dist, keys: u32, read_ratio: f64, seed: u64) -> Self {
        let table = match dist {
            Dist::Uniform => Vec::new(),
            Dist::Zipf => shares((1..=keys).map(|n| f64::from(n).powf(-THETA)).collect()),
        };
        Choice { state: mix(seed), keys, reads: (read_ratio * WHOLE) as u64, table }
    }

    #[inline]
    pub(super) fn key(&mut self) -> u32 {
        let number = self.next();
        let (high, low) = (number >> 32, number & u64::from(u32::MAX));
        let key = ((high * u64::from(self.keys)) >> 32) as u32;
        match self.table.get(key as usize) {
            Some(row) if low >= row.keeps => row.other,
            _ => key,
        }
    }

    #[inline]
    pub(super) fn reads(&mut self) -> bool {
        self.next() >> 32 < self.reads
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(1);
        mix(self.state)
    }
}

/// Walker's alias method, as Vose has it: any distribution by one look into a table.
fn shares(mut weights: Vec<f64>) -> Vec<Row> {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    weights.iter_mut().for_each(|weight| *weight /= mean);
    let mut rows: Vec<Row> =
        (0..weights.len()).map(|at| Row { keeps: WHOLE as u64, other: at as u32 }).collect();
    let (mut poor, mut rich): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|at| weights[*at] < 1.0);
    while let (Some(taker), Some(giver)) = (poor.pop(), rich.last().copied()) {
        rows[taker] = Row { keeps: (weights[taker] * WHOLE) as u64, other: giver as u32 };
        weights[giver] -= 1.0 - weights[taker];
        if weights[giver] < 1.0 {
            poor.extend(rich.pop());
        }
    }
    rows
}

/// As YCSB has it.
const THETA: f64 = 0.99;
const WHOLE: f64 = 4_294_967_296.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(dist: Dist, keys: u32) -> Vec<f64> {
        let mut choice = Choice::new(dist, keys, 0.5, 1);
        let mut counts = vec![0.0; keys as usize];
        (0..1_000_000).for_each(|_| counts[choice.key() as usize] += 1e-6);
        counts
    }

    #[test]
    fn all_keys_alike() {
        assert!(counts(Dist::Uniform, 10).iter().all(|share| (share - 0.1).abs() < 0.01));
    }

    #[test]
    fn zipf_asks_for_the_first_most_of_the_time() {
        let sum: f64 = (1..=1000).map(|n| f64::from(n).powf(-THETA)).sum();
        let counts = counts(Dist::Zipf, 1000);
        for n in [1, 2, 10, 100] {
            let expected = f64::from(n).powf(-THETA) / sum;
            let share = counts[n as usize - 1];
            assert!((share / expected - 1.0).abs() < 0.1, "{n}: {share} instead of {expected}");
        }
    }

    #[test]
    fn as_many_reads_as_asked_for() {
        for ratio in [0.0, 0.25, 1.0] {
            let mut choice = Choice::new(Dist::Uniform, 1, ratio, 9);
            let reads = (0..100_000).filter(|_| choice.reads()).count() as f64 / 1e5;
            assert!((reads - ratio).abs() < 0.01, "{reads} instead of {ratio}");
        }
    }
}
