//! Names of metrics: the existing ones, and those in a query.

use std::collections::BTreeSet;
use std::path::PathBuf;

use doctor::monitoring::rows;

/// Names in the exporter's tables; no tree has all of them.
pub(crate) fn of_tables() -> BTreeSet<String> {
    let counters = node::counters::TABLE.iter().map(|known| format!("rdma_{}", known.row.name()));
    let rdma = rows::RDMA.iter().map(|row| format!("rdma_{}", row.name()));
    let own = rows::WIRELANE.iter().map(|row| format!("wirelane_{}", row.name()));
    let statistics = node::counters::STATISTICS.iter();
    let statistics = statistics.map(|statistic| format!("rdma_{}", statistic.row.name()));
    counters.chain(statistics).chain(rdma).chain(own).collect()
}

/// Names in a scrape, with the series of histograms and summaries.
pub(crate) fn of_scrape(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types
        .flat_map(|(name, kind)| match kind {
            "histogram" | "summary" => {
                ["", "_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")).to_vec()
            }
            _ => vec![name.to_owned()],
        })
        .collect()
}

/// Unknown names in a query: words that are not a function, label or keyword.
pub(crate) fn unknown<'q>(
    query: &'q str,
    known: &'q BTreeSet<String>,
) -> impl Iterator<Item = String> + 'q {
    metrics(query).into_iter().filter(|name| !known.contains(name))
}

/// The words of a query outside of braces, brackets and quotes that name metrics: ours have an underscore or a colon in
/// them and no bracket after them, which functions have; labels stand in parentheses after `by` and have neither.
fn metrics(query: &str) -> BTreeSet<String> {
    let mut bare = String::new();
    let (mut depth, mut quoted) = (0_u32, false);
    for letter in query.chars() {
        match letter {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => bare.push(letter),
            _ => {}
        }
    }
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let mut names = BTreeSet::new();
    let mut rest = bare.as_str();
    while let Some(from) = rest.find(is_part) {
        let word = &rest[from..];
        let length = word.find(|letter| !is_part(letter)).unwrap_or(word.len());
        rest = &word[length..];
        let word = &word[..length];
        let is_call = rest.starts_with('(');
        if word.contains(['_', ':']) && !is_call && !LABELS.contains(&word) {
            names.insert(word.to_owned());
        }
    }
    names
}

/// Alerts that a test expects to fire: `{alertname="X"` in the expected samples.
pub(crate) fn alerts_that_fire_in_tests(files: &[PathBuf]) -> BTreeSet<String> {
    let texts = files.iter().map(|file| std::fs::read_to_string(file).expect("a test"));
    let names = |text: String| -> Vec<String> {
        let expected = text.split("labels: '").skip(1);
        let name = |text: &str| {
            let inside = text.split_once('\'')?.0.split_once("alertname=\"")?.1;
            Some(inside.split_once('"')?.0.to_owned())
        };
        expected.filter_map(name).collect()
    };
    texts.flat_map(names).collect()
}

const LABELS: &[&str] = &["ignoring", "group_left", "group_right"];

#[test]
fn names_of_a_query_are_found() {
    let query = r#"sum by (job, le) (rate(rdma_a_total{device=~"x_y"}[5m])) > 1e-4 * rdma:b:rate5m unless changes(up[1h])"#;
    assert_eq!(Vec::from_iter(metrics(query)), ["rdma:b:rate5m", "rdma_a_total"]);
    let known = BTreeSet::from(["rdma_a_total".to_owned()]);
    assert_eq!(Vec::from_iter(unknown(query, &known)), ["rdma:b:rate5m"]);
}
