//! The verdict: limits on the second half of the samples relative to the first, after a warm-up.

use std::fmt;

use super::faults::FaultCounts;
use super::sample::Sample;
use super::server::IdleState;

/// Each rule, whether it is met, and its numbers.
pub(super) struct Verdict {
    rules: Vec<(bool, String)>,
}

impl Verdict {
    /// `errors`: of undisturbed clients; `before` and `after`: the idle state before the clients came, and
    /// after all have left.
    pub(super) fn new(
        samples: &[Sample],
        errors: Vec<String>,
        before: &IdleState,
        after: &IdleState,
    ) -> Self {
        let warm = samples.get((samples.len() / 5).max(1)..).unwrap_or_default();
        let halves = warm.split_at(warm.len() / 2);
        // The clients change from sample to sample, each with ten descriptors: slow leaks are found in the idle state
        // after all clients have left.
        let mut rules = vec![
            compare_peaks(
                "RSS, MiB",
                halves,
                |sample| sample.rss_mib,
                |before| before * 1.05 + 16.0,
            ),
            compare_medians(
                "descriptors",
                halves,
                |sample| sample.descriptors,
                |before| before + 40.0,
            ),
            compare_medians("threads", halves, |sample| sample.threads, |before| before + 8.0),
            compare_medians("p99, µs", halves, |sample| sample.p99_us, |before| before * 2.0),
        ];
        if samples.iter().all(|sample| !sample.disk_mib.is_nan()) {
            let allowed = |before| before * 1.1 + 64.0;
            rules.push(compare_medians("disk, MiB", halves, |sample| sample.disk_mib, allowed));
        }
        let wrong: u64 = samples.iter().map(|sample| sample.errors).sum();
        let why = errors.first().map_or(String::new(), |why| format!(": {why}"));
        rules.push((wrong == 0 && errors.is_empty(), format!("{wrong} errors{why}")));
        rules.push((after.is_like(before), idle_text(before, after)));
        Verdict { rules }
    }

    pub(super) fn is_good(&self) -> bool {
        self.rules.iter().all(|(holds, _)| *holds)
    }

    pub(super) fn json(&self, injected: &FaultCounts) -> String {
        let rule =
            |(holds, text): &(bool, String)| serde_json::json!({ "holds": holds, "text": text });
        let rules: Vec<_> = self.rules.iter().map(rule).collect();
        let FaultCounts { kills, stops, cuts, floods } = injected;
        let injected = serde_json::json!({
            "kills": kills, "stops": stops, "cuts": cuts, "floods": floods
        });
        serde_json::json!({ "good": self.is_good(), "rules": rules, "injected": injected })
            .to_string()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (holds, text) in &self.rules {
            writeln!(f, "{}  {text}", if *holds { "good" } else { "BAD " })?;
        }
        f.write_str(if self.is_good() { "verdict: good" } else { "verdict: NOT good" })
    }
}

type Halves<'s> = (&'s [Sample], &'s [Sample]);

/// Compares the peak of the second half with the peak of the first and a margin: for memory that is never freed.
fn compare_peaks(
    name: &str,
    (first, second): Halves<'_>,
    of: impl Fn(&Sample) -> f64,
    allowed: impl Fn(f64) -> f64,
) -> (bool, String) {
    let [before, after] = [first, second].map(|half| peak(half, &of));
    let limit = allowed(before);
    (after <= limit, format!("{name}: peak {before:.0}, then {after:.0} (limit {limit:.0})"))
}

/// Compares the median of the second half with that of the first and a margin: a sample may be taken during a fault,
/// so the peak is only printed.
fn compare_medians(
    name: &str,
    (first, second): Halves<'_>,
    of: impl Fn(&Sample) -> f64,
    allowed: impl Fn(f64) -> f64,
) -> (bool, String) {
    let [before, after] = [first, second].map(|half| median(half, &of));
    let [peak_before, peak_after] = [first, second].map(|half| peak(half, &of));
    let limit = allowed(before);
    let text = format!(
        "{name}: median {before:.1}, then {after:.1} (limit {limit:.1}); peak {peak_before:.1}, then {peak_after:.1}"
    );
    (after <= limit, text)
}

/// The idle state before the clients came, and after all have left.
fn idle_text(before: &IdleState, after: &IdleState) -> String {
    let held = match after.held.is_empty() {
        true => "nothing held".to_owned(),
        false => format!("held: {}", after.held.join(", ")),
    };
    format!(
        "after all have left: {held}; {} descriptors and {} threads ({} and {} before they came, limit {} more)",
        after.descriptors,
        after.threads,
        before.descriptors,
        before.threads,
        IdleState::TOLERANCE
    )
}

fn peak(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    samples.iter().map(of).fold(0.0, f64::max)
}

fn median(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(rss: [f64; 10], p99: [f64; 10]) -> Vec<Sample> {
        let one = |(rss_mib, p99_us)| Sample { rss_mib, p99_us, ..Sample::default() };
        rss.into_iter().zip(p99).map(one).collect()
    }

    fn good(samples: &[Sample]) -> bool {
        Verdict::new(samples, Vec::new(), &IdleState::default(), &IdleState::default()).is_good()
    }

    #[test]
    fn growth_is_bad() {
        let flat = [500.0; 10];
        assert!(good(&samples(flat, [9.0; 10])));
        let mut grows = flat;
        grows[9] = 560.0;
        assert!(!good(&samples(grows, [9.0; 10])));
        let mut warms = flat;
        (warms[0], warms[1]) = (10.0, 100.0);
        assert!(good(&samples(warms, [9.0; 10])));
        let slower: [f64; 10] = std::array::from_fn(|at| if at < 6 { 9.0 } else { 19.0 });
        assert!(!good(&samples(flat, slower)));
    }

    #[test]
    fn one_sample_during_a_fault_is_good_but_a_leak_is_bad() {
        let with = |change: fn(&mut Sample, usize)| {
            let mut samples = samples([500.0; 10], [9.0; 10]);
            samples.iter_mut().enumerate().for_each(|(at, sample)| {
                (sample.descriptors, sample.threads, sample.disk_mib) = (105.0, 20.0, 300.0);
                change(sample, at);
            });
            good(&samples)
        };
        assert!(with(|_, _| {}));
        assert!(with(|sample, at| sample.descriptors += if at == 8 { 214.0 } else { 0.0 }));
        assert!(!with(|sample, at| sample.descriptors += at as f64 * 12.0));
        assert!(!with(|sample, at| sample.threads += at as f64 * 3.0));
        assert!(!with(|sample, at| sample.disk_mib += at as f64 * 40.0));
    }

    #[test]
    fn one_error_is_too_many() {
        let calm = samples([1.0; 10], [1.0; 10]);
        let rest = IdleState::default();
        assert!(!Verdict::new(&calm, vec!["client 0: gone".into()], &rest, &rest).is_good());
    }

    #[test]
    fn leftovers_are_bad() {
        let calm = samples([1.0; 10], [1.0; 10]);
        let before = IdleState { descriptors: 30.0, threads: 9.0, held: Vec::new() };
        let left = |after: IdleState| Verdict::new(&calm, Vec::new(), &before, &after).is_good();
        assert!(left(IdleState { descriptors: 38.0, threads: 12.0, ..IdleState::default() }));
        assert!(!left(IdleState { descriptors: 39.0, ..before.clone() }));
        assert!(!left(IdleState { threads: 18.0, ..before.clone() }));
        assert!(!left(IdleState { held: vec!["store_pins 1".into()], ..before.clone() }));
        assert!(!left(IdleState { descriptors: f64::NAN, ..before.clone() }));
    }
}
