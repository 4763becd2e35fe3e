//! Changes of results from earlier runs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Measurement, Unit, measurements};
use crate::Document;

/// The median and noise of a result over earlier runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EarlierRuns {
    /// The median.
    pub median: f64,
    /// The spread of runs without a change, as a standard deviation, estimated from the median absolute deviation,
    /// which one outlier does not affect.
    pub noise: f64,
    /// Number of runs.
    pub runs: usize,
}

/// A result, compared with an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The new result.
    pub measurement: Measurement,
    /// The value it is compared with.
    pub before: f64,
    /// Whether that is a baseline, and not the median of earlier runs.
    pub is_baseline: bool,
    /// The noise between runs, if there are enough of them.
    pub noise: Option<f64>,
}

impl EarlierRuns {
    /// From the values of earlier runs; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<EarlierRuns> {
        let median = median(values)?;
        let distances: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
        let noise = deviation_from_median_distance(&distances);
        Some(EarlierRuns { median, noise, runs: values.len() })
    }
}

impl Change {
    /// The relative change: 0.1 is 10 % more.
    pub fn ratio(&self) -> f64 {
        self.measurement.value / self.before - 1.0
    }

    /// How much worse, relative to before; negative if better.
    pub fn worse_by(&self) -> f64 {
        match self.measurement.unit {
            Unit::Nanoseconds => self.ratio(),
            _ => -self.ratio(),
        }
    }

    /// Whether it exceeds the noise between runs.
    pub fn is_beyond_noise(&self) -> bool {
        let distance = (self.measurement.value - self.before).abs();
        self.noise.is_none_or(|noise| distance > MAX_NOISE_DEVIATIONS * noise)
    }

    /// Whether it is worse by more than this ratio, and beyond noise.
    pub fn is_regression(&self, more_than: f64) -> bool {
        self.worse_by() > more_than && self.is_beyond_noise()
    }
}

/// The results that both runs have.
pub fn changes(now: &Document, before: &Document) -> Vec<Change> {
    let before = measurements(before);
    let compare = |measurement: Measurement| {
        let before = before.iter().find(|before| before.is_like(&measurement))?.value;
        Some(Change { measurement, before, is_baseline: true, noise: None })
    };
    measurements(now).into_iter().filter_map(compare).collect()
}

/// The newest value of every result, compared with its baseline, or with the median of up to `last` earlier runs;
/// results without either are left out. `runs` are from the oldest to the newest. Each change comes with the index of
/// its run.
pub fn newest(runs: &[&Document], baselines: &[&Document], last: usize) -> Vec<(usize, Change)> {
    let mut measured: BTreeMap<(String, String, Unit), Vec<(usize, Measurement)>> = BTreeMap::new();
    for (run, document) in runs.iter().enumerate() {
        for measurement in measurements(document) {
            let key = (measurement.what.clone(), measurement.how.clone(), measurement.unit);
            measured.entry(key).or_default().push((run, measurement));
        }
    }
    let baselines: Vec<Measurement> =
        baselines.iter().flat_map(|baseline| measurements(baseline)).collect();
    let compare = |mut values: Vec<(usize, Measurement)>| {
        let (run, measurement) = values.pop()?;
        let earlier: Vec<f64> =
            values.iter().rev().take(last).map(|(_, measurement)| measurement.value).collect();
        let baseline = baselines.iter().find(|baseline| baseline.is_like(&measurement));
        let earlier_runs = EarlierRuns::of(&earlier);
        let before = baseline
            .map(|baseline| baseline.value)
            .or(earlier_runs.map(|earlier_runs| earlier_runs.median))?;
        let noise = earlier_runs
            .filter(|earlier_runs| earlier_runs.runs >= MIN_RUNS_FOR_NOISE)
            .map(|earlier_runs| earlier_runs.noise);
        Some((run, Change { measurement, before, is_baseline: baseline.is_some(), noise }))
    };
    let mut changes: Vec<_> = measured.into_values().filter_map(compare).collect();
    // The newest run first; within a run in the order of measurement.
    changes.sort_by_key(|(run, _)| std::cmp::Reverse(*run));
    changes
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// For a normal distribution, the standard deviation is 1.4826 times the median absolute deviation.
fn deviation_from_median_distance(distances: &[f64]) -> f64 {
    median(distances).unwrap_or(0.0) * 1.4826
}

/// A change of more than this many deviations is not noise.
const MAX_NOISE_DEVIATIONS: f64 = 3.0;

/// Minimum number of runs to estimate noise.
const MIN_RUNS_FOR_NOISE: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collective, RunKind};

    fn change(value: f64, before: f64, unit: Unit, noise: Option<f64>) -> Change {
        let measurement = Measurement { what: "w".into(), how: "h".into(), value, unit };
        Change { measurement, before, is_baseline: false, noise }
    }

    #[test]
    fn one_bad_run_does_not_change_the_median() {
        let earlier_runs = EarlierRuns::of(&[97.0, 96.8, 97.2, 12.0, 97.1]).expect("runs");
        assert_eq!((earlier_runs.median, earlier_runs.runs), (97.0, 5));
        assert!(earlier_runs.noise < 0.5, "{earlier_runs:?}");
        assert_eq!(EarlierRuns::of(&[]), None);
        assert_eq!(EarlierRuns::of(&[1.0, 3.0]).map(|earlier_runs| earlier_runs.median), Some(2.0));
    }

    #[test]
    fn less_bandwidth_and_more_latency_are_worse() {
        assert!(change(80.0, 97.0, Unit::GigabitsPerSecond, None).is_regression(0.1));
        assert!(!change(80.0, 97.0, Unit::Nanoseconds, None).is_regression(0.1));
        assert!(change(1200.0, 1000.0, Unit::Nanoseconds, None).is_regression(0.1));
        assert!(!change(92.0, 97.0, Unit::GigabitsPerSecond, None).is_regression(0.1));
    }

    #[test]
    fn a_change_within_noise_is_no_regression() {
        assert!(!change(80.0, 97.0, Unit::GigabitsPerSecond, Some(8.0)).is_regression(0.1));
        assert!(change(80.0, 97.0, Unit::GigabitsPerSecond, Some(2.0)).is_regression(0.1));
    }

    #[test]
    fn only_results_of_the_same_measurement_are_compared() {
        let mut now = Document::new(RunKind::Nccl, String::new(), "a".into());
        now.collective = Some(Collective {
            hosts: vec!["a".into(), "b".into()],
            average_bus_gb_per_second: Some(3.27),
            ..Collective::default()
        });
        let mut before = now.clone();
        if let Some(run) = &mut before.collective {
            run.average_bus_gb_per_second = Some(3.0);
        }
        let found = changes(&now, &before);
        assert_eq!(found.len(), 1);
        assert!((found[0].ratio() - 0.09).abs() < 1e-9);
        if let Some(run) = &mut before.collective {
            run.hosts.pop();
        }
        assert_eq!(changes(&now, &before), []);
    }

    fn run(value: f64) -> Document {
        let mut run = Document::new(RunKind::Nccl, String::new(), "a".into());
        let average_bus_gb_per_second = Some(value);
        run.collective = Some(Collective { average_bus_gb_per_second, ..Collective::default() });
        run
    }

    #[test]
    fn the_newest_run_is_compared_with_the_median_of_earlier_ones() {
        let runs = [3.2, 3.3, 3.25, 3.28, 2.6].map(run);
        let all: Vec<&Document> = runs.iter().collect();
        let found = newest(&all, &[], 10);
        assert_eq!((found.len(), found[0].0), (1, 4));
        assert!(found[0].1.is_regression(0.1) && !found[0].1.is_baseline, "{found:?}");
        assert!(!newest(&all[..4], &[], 10)[0].1.is_regression(0.1));
        assert_eq!(newest(&all[..1], &[], 10), []);
        // The baseline is worse than the newest run.
        assert!(!newest(&all, &[&run(2.5)], 10)[0].1.is_regression(0.1));
        assert!(newest(&all[..1], &[&run(4.0)], 10)[0].1.is_regression(0.1));
    }
}
