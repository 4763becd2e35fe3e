//! How far results moved from earlier runs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Measurement, Unit, measurements};
use crate::Document;

/// What a result usually is, from earlier runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usual {
    /// The middle one.
    pub median: f64,
    /// How far runs differ with nothing changed, like a standard deviation: from the median of the distances to the median,
    /// which a run that went wrong does not move.
    pub noise: f64,
    /// How many runs that is from.
    pub runs: usize,
}

/// A result beside what it was before.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The result now.
    pub measurement: Measurement,
    /// What it is compared with.
    pub before: f64,
    /// Whether that is a baseline, and not what is usual.
    pub is_baseline: bool,
    /// How far runs differ with nothing changed, if there are enough of them to tell.
    pub noise: Option<f64>,
}

impl Usual {
    /// From results of earlier runs; none if there are none.
    pub fn of(values: &[f64]) -> Option<Usual> {
        let median = median(values)?;
        let distances: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
        let noise = median_distance_as_deviation(&distances);
        Some(Usual { median, noise, runs: values.len() })
    }
}

impl Change {
    /// The change as a part of what was before: 0.1 is a tenth more.
    pub fn part(&self) -> f64 {
        self.measurement.value / self.before - 1.0
    }

    /// How much worse, as a part of what was before; negative if it is better.
    pub fn worse_by(&self) -> f64 {
        match self.measurement.unit {
            Unit::Nanoseconds => self.part(),
            _ => -self.part(),
        }
    }

    /// Whether it is beyond what runs differ by with nothing changed.
    pub fn is_beyond_noise(&self) -> bool {
        let distance = (self.measurement.value - self.before).abs();
        self.noise.is_none_or(|noise| distance > NOISE * noise)
    }

    /// Worse by more than this part, and beyond noise.
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

/// The newest value of every result beside its baseline, or beside the median of up to `last` runs before it. `runs` are from
/// the oldest to the newest. What has neither is not there. With each: which of the runs it is of.
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
        let usual = Usual::of(&earlier);
        let before = baseline.map(|baseline| baseline.value).or(usual.map(|usual| usual.median))?;
        let noise = usual.filter(|usual| usual.runs >= ENOUGH).map(|usual| usual.noise);
        Some((run, Change { measurement, before, is_baseline: baseline.is_some(), noise }))
    };
    let mut changes: Vec<_> = measured.into_values().filter_map(compare).collect();
    // From the newest run on, within it as it was measured.
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

/// Of values that are spread as chance spreads them, the standard deviation is so many times the median distance.
fn median_distance_as_deviation(distances: &[f64]) -> f64 {
    median(distances).unwrap_or(0.0) * 1.4826
}

/// What lies farther out than so many deviations is not chance.
const NOISE: f64 = 3.0;

/// Fewer runs do not tell how far runs differ.
const ENOUGH: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collective, RunKind};

    fn change(value: f64, before: f64, unit: Unit, noise: Option<f64>) -> Change {
        let measurement = Measurement { what: "w".into(), how: "h".into(), value, unit };
        Change { measurement, before, is_baseline: false, noise }
    }

    #[test]
    fn one_bad_run_does_not_move_what_is_usual() {
        let usual = Usual::of(&[97.0, 96.8, 97.2, 12.0, 97.1]).expect("runs");
        assert_eq!((usual.median, usual.runs), (97.0, 5));
        assert!(usual.noise < 0.5, "{usual:?}");
        assert_eq!(Usual::of(&[]), None);
        assert_eq!(Usual::of(&[1.0, 3.0]).map(|usual| usual.median), Some(2.0));
    }

    #[test]
    fn less_bandwidth_and_more_latency_are_worse() {
        assert!(change(80.0, 97.0, Unit::GigabitsPerSecond, None).is_regression(0.1));
        assert!(!change(80.0, 97.0, Unit::Nanoseconds, None).is_regression(0.1));
        assert!(change(1200.0, 1000.0, Unit::Nanoseconds, None).is_regression(0.1));
        assert!(!change(92.0, 97.0, Unit::GigabitsPerSecond, None).is_regression(0.1));
    }

    #[test]
    fn what_runs_differ_by_anyway_is_no_regression() {
        assert!(!change(80.0, 97.0, Unit::GigabitsPerSecond, Some(8.0)).is_regression(0.1));
        assert!(change(80.0, 97.0, Unit::GigabitsPerSecond, Some(2.0)).is_regression(0.1));
    }

    #[test]
    fn runs_are_compared_by_what_they_measured() {
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
        assert!((found[0].part() - 0.09).abs() < 1e-9);
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
    fn the_newest_run_is_compared_with_what_is_usual() {
        let runs = [3.2, 3.3, 3.25, 3.28, 2.6].map(run);
        let all: Vec<&Document> = runs.iter().collect();
        let found = newest(&all, &[], 10);
        assert_eq!((found.len(), found[0].0), (1, 4));
        assert!(found[0].1.is_regression(0.1) && !found[0].1.is_baseline, "{found:?}");
        assert!(!newest(&all[..4], &[], 10)[0].1.is_regression(0.1));
        assert_eq!(newest(&all[..1], &[], 10), []);
        // The baseline is worse than it is now.
        assert!(!newest(&all, &[&run(2.5)], 10)[0].1.is_regression(0.1));
        assert!(newest(&all[..1], &[&run(4.0)], 10)[0].1.is_regression(0.1));
    }
}
