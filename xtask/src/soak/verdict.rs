//! Whether it went well: what the second half of the samples may differ from the first by, once warmed up.

use std::fmt;

use super::faults::Injected;
use super::sample::Sample;

/// Each rule, whether it holds, and by what numbers.
pub(super) struct Verdict {
    rules: Vec<(bool, String)>,
}

impl Verdict {
    /// `errors`: of clients that nobody disturbed; `left`: what was held when all were gone.
    pub(super) fn new(samples: &[Sample], errors: Vec<String>, left: Vec<String>) -> Self {
        let warm = samples.get((samples.len() / 5).max(1)..).unwrap_or_default();
        let (first, second) = warm.split_at(warm.len() / 2);
        let mut rules = vec![
            highest(
                "RSS, MiB",
                first,
                second,
                |sample| sample.rss_mib,
                |before| before * 1.05 + 16.0,
            ),
            highest(
                "descriptors",
                first,
                second,
                |sample| sample.descriptors,
                |before| before + 40.0,
            ),
            highest("threads", first, second, |sample| sample.threads, |before| before + 8.0),
        ];
        let [before, after] = [first, second].map(|half| median(half, |sample| sample.p99_us));
        let text = format!("median p99: {before:.1}, then {after:.1} µs (at most twice as much)");
        rules.push((after <= 2.0 * before, text));
        let wrong: u64 = samples.iter().map(|sample| sample.errors).sum();
        let why = errors.first().map_or(String::new(), |why| format!(": {why}"));
        rules.push((wrong == 0 && errors.is_empty(), format!("{wrong} errors{why}")));
        let text = match left.is_empty() {
            true => "nothing is held after all clients are gone".to_owned(),
            false => format!("held after all clients are gone: {}", left.join(", ")),
        };
        rules.push((left.is_empty(), text));
        Verdict { rules }
    }

    pub(super) fn is_good(&self) -> bool {
        self.rules.iter().all(|(holds, _)| *holds)
    }

    pub(super) fn json(&self, injected: &Injected) -> String {
        let rule =
            |(holds, text): &(bool, String)| serde_json::json!({ "holds": holds, "text": text });
        let rules: Vec<_> = self.rules.iter().map(rule).collect();
        let Injected { kills, stops, cuts, floods } = injected;
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

/// The most of the second half, against the most of the first and a margin.
fn highest(
    name: &str,
    first: &[Sample],
    second: &[Sample],
    of: impl Fn(&Sample) -> f64,
    allowed: impl Fn(f64) -> f64,
) -> (bool, String) {
    let [before, after] = [first, second].map(|half| half.iter().map(&of).fold(0.0, f64::max));
    let most = allowed(before);
    (after <= most, format!("{name}: {before:.0}, then {after:.0} (at most {most:.0})"))
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
        Verdict::new(samples, Vec::new(), Vec::new()).is_good()
    }

    #[test]
    fn what_stays_is_good_and_what_grows_is_not() {
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
    fn one_error_is_too_many() {
        let calm = samples([1.0; 10], [1.0; 10]);
        assert!(!Verdict::new(&calm, vec!["client 0: gone".into()], Vec::new()).is_good());
        assert!(!Verdict::new(&calm, Vec::new(), vec!["store_pins Some(1.0)".into()]).is_good());
    }
}
