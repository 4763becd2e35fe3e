//! One answer to one scrape: Prometheus's text format 0.0.4.

use std::fmt::{self, Write};

use crate::{Kind, Prefix, Row, Value};

/// The `Content-Type` of the answer.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Collects samples, and formats them as text.
///
/// The samples of a row are grouped, in whatever order they were added, below one `HELP` and one `TYPE`.
#[derive(Debug)]
pub struct Exposition {
    prefix: Prefix,
    families: Vec<Family>,
}

/// The number of values of a summary, and their sum if it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Total {
    /// The number of values.
    pub count: u64,
    /// Their sum; omitted if not known.
    pub sum: Option<Value>,
}

/// Labels of a sample: names and values.
type Labels<'l> = &'l [(&'l str, &'l str)];

impl Exposition {
    /// An empty answer.
    pub fn new(prefix: &Prefix) -> Self {
        Exposition { prefix: prefix.clone(), families: Vec::new() }
    }

    /// Adds a sample of a counter or gauge. To Prometheus a label with an empty value is the same as a missing
    /// one: callers leave it out.
    pub fn add(&mut self, row: &Row, labels: Labels<'_>, value: impl Into<Value>) {
        debug_assert!(matches!(row.kind(), Kind::Counter | Kind::Gauge), "{row:?}");
        self.family(row).sample("", labels, None, value.into());
    }

    /// Adds a histogram. Each bucket has its upper bound and its own number of values, not cumulative;
    /// bounds are ascending, and the last may be infinite.
    pub fn histogram(
        &mut self,
        row: &Row,
        labels: Labels<'_>,
        buckets: &[(f64, u64)],
        sum: impl Into<Value>,
    ) {
        debug_assert_eq!(row.kind(), Kind::Histogram, "{row:?}");
        debug_assert!(buckets.is_sorted_by(|before, after| before.0 < after.0), "{row:?}");
        let family = self.family(row);
        let mut count = 0;
        for (bound, values) in buckets.iter().filter(|(bound, _)| bound.is_finite()) {
            count += values;
            family.sample("_bucket", labels, Some(("le", *bound)), count.into());
        }
        let count: u64 = buckets.iter().map(|(_, values)| values).sum();
        family.sample("_bucket", labels, Some(("le", f64::INFINITY)), count.into());
        family.sample("_sum", labels, None, sum.into());
        family.sample("_count", labels, None, count.into());
    }

    /// Adds a summary: values by quantile (0 to 1), without quantiles if there are no values yet.
    pub fn summary(
        &mut self,
        row: &Row,
        labels: Labels<'_>,
        quantiles: &[(f64, Value)],
        total: Total,
    ) {
        debug_assert_eq!(row.kind(), Kind::Summary, "{row:?}");
        let family = self.family(row);
        for (quantile, value) in quantiles {
            family.sample("", labels, Some(("quantile", *quantile)), *value);
        }
        if let Some(sum) = total.sum {
            family.sample("_sum", labels, None, sum);
        }
        family.sample("_count", labels, None, total.count.into());
    }

    fn family(&mut self, row: &Row) -> &mut Family {
        // Samples of one row are mostly added in sequence.
        let known = self.families.iter().rposition(|family| family.row.name() == row.name());
        let at = known.unwrap_or_else(|| {
            let name = format!("{}_{}", self.prefix, row.name());
            self.families.push(Family { row: *row, name, samples: String::new() });
            self.families.len() - 1
        });
        debug_assert_eq!(self.families[at].row, *row, "two rows have one name");
        &mut self.families[at]
    }
}

impl fmt::Display for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Family { row, name, samples } in &self.families {
            let help = Escaped { text: row.help(), quotes: false };
            write!(f, "# HELP {name} {help}\n# TYPE {name} {}\n{samples}", row.kind().name())?;
        }
        Ok(())
    }
}

/// The samples of one row.
#[derive(Debug)]
struct Family {
    row: Row,
    /// With the prefix.
    name: String,
    /// One line each.
    samples: String,
}

impl Family {
    fn sample(&mut self, suffix: &str, labels: Labels<'_>, own: Option<(&str, f64)>, value: Value) {
        let begin = self.samples.len();
        write_series(&mut self.samples, &self.name, suffix, labels, own);
        debug_assert!(
            !self.has(&self.samples[begin..], begin),
            "two samples of {}",
            &self.samples[begin..]
        );
        // Writing to a string cannot fail.
        let _ = writeln!(self.samples, " {value}");
    }

    /// Whether a series is among the samples before `end`.
    fn has(&self, series: &str, end: usize) -> bool {
        self.samples[..end]
            .lines()
            .any(|line| line.rsplit_once(' ').is_some_and(|(known, _)| known == series))
    }
}

/// A name with its labels. `own` is the label that histograms and summaries add.
fn write_series(
    text: &mut String,
    name: &str,
    suffix: &str,
    labels: Labels<'_>,
    own: Option<(&str, f64)>,
) {
    debug_assert!(labels.iter().all(|(name, _)| is_label(name)), "{labels:?}");
    text.push_str(name);
    text.push_str(suffix);
    let mut before = '{';
    for (name, value) in labels {
        let value = Escaped { text: value, quotes: true };
        let _ = write!(text, "{before}{name}=\"{value}\"");
        before = ',';
    }
    if let Some((name, value)) = own {
        let _ = write!(text, "{before}{name}=\"{}\"", Value::Real(value));
        before = ',';
    }
    if before == ',' {
        text.push('}');
    }
}

/// Whether a label may have this name: valid, and not one that Prometheus or this file adds.
fn is_label(name: &str) -> bool {
    let good = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'_';
    let first = name.bytes().next().is_some_and(|letter| !letter.is_ascii_digit());
    let reserved = name.starts_with("__") || matches!(name, "le" | "quantile");
    first && !reserved && name.bytes().all(good)
}

struct Escaped<'t> {
    text: &'t str,
    /// Whether to escape quotes: in label values, but not in help.
    quotes: bool,
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.text.contains(['\\', '\n', '"']) {
            return f.write_str(self.text);
        }
        self.text.chars().try_for_each(|letter| match letter {
            '\\' => f.write_str("\\\\"),
            '\n' => f.write_str("\\n"),
            '"' if self.quotes => f.write_str("\\\""),
            _ => f.write_char(letter),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Row = Row::counter("bytes_sent_total", "bytes", "Payload \"sent\" by C:\\");
    const UP: Row = Row::gauge("connected", "", "Whether a link is up");
    const TOOK: Row = Row::histogram("request_duration_seconds", "seconds", "How long it took");
    const LATENCY: Row = Row::summary("send_latency_ns", "ns", "Post to completion");

    #[test]
    fn every_kind_is_exposed() {
        let mut answer = Exposition::new(&Prefix::default());
        answer.add(&SENT, &[("device", "mlx5_0"), ("why", "a\"b\\c\nd")], u64::MAX);
        answer.add(&UP, &[], true);
        answer.add(&SENT, &[("device", "mlx5_1")], 0u64);
        answer.histogram(&TOOK, &[("op", "get")], &[(0.5, 2), (1.0, 3), (f64::INFINITY, 4)], 7.5);
        let quantiles = [(0.5, Value::Whole(650)), (0.99, Value::Real(f64::NAN))];
        answer.summary(&LATENCY, &[], &quantiles, Total { count: 9, sum: None });
        assert_eq!(answer.to_string(), include_str!("../tests/every_kind.prom"));
    }

    #[test]
    fn the_infinite_bucket_is_added() {
        let mut answer = Exposition::new(&"dwcp".parse().unwrap());
        answer.histogram(&TOOK, &[], &[(0.5, 2)], 0.6);
        let text = answer.to_string();
        assert!(text.contains("\ndwcp_request_duration_seconds_bucket{le=\"+Inf\"} 2\n"), "{text}");
        assert!(text.ends_with("_count 2\n"), "{text}");
    }

    #[test]
    fn an_empty_exposition_is_empty_text() {
        assert_eq!(Exposition::new(&Prefix::default()).to_string(), "");
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "two samples")]
    fn a_duplicate_sample_panics() {
        let mut answer = Exposition::new(&Prefix::default());
        answer.add(&UP, &[], 1u64);
        answer.add(&UP, &[], 0u64);
    }

    #[test]
    fn label_names_are_valid_and_not_reserved() {
        assert!(is_label("device") && is_label("_x1"));
        for wrong in ["", "1a", "a-b", "le", "quantile", "__name__"] {
            assert!(!is_label(wrong), "{wrong}");
        }
    }
}
