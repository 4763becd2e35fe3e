//! docs/exporter.md lists every metric of the rows.
#![allow(clippy::disallowed_methods, reason = "a test creates the files that it reads")]
#![allow(missing_docs, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use doctor::monitoring::rows;
use metric::Row;
use node::counters::{STATISTICS, TABLE};

/// The text between the marks is generated from the rows; `WIRELANE_GOLDEN=write` updates it.
#[test]
fn the_documentation_lists_the_same() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exporter.md");
    let text = std::fs::read_to_string(&path).expect("the documentation");
    let tables = [("own", own()), ("counters", counters()), ("statistics", statistics())];
    let generated =
        tables.iter().fold(text.clone(), |text, (name, table)| replaced(&text, name, table));
    if std::env::var_os("WIRELANE_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, &generated).expect("is written");
        return;
    }
    assert_eq!(
        text, generated,
        "docs/exporter.md differs from the rows; update it: WIRELANE_GOLDEN=write cargo nextest run -p wirelane-doctor documentation"
    );
}

fn replaced(text: &str, name: &str, table: &str) -> String {
    let (begin, end) =
        (format!("<!-- {name}: made of the rows -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = text.split_once(&begin).expect("where the table begins");
    let (_, after) = rest.split_once(&end).expect("where it ends");
    format!("{before}{begin}{table}{end}{after}")
}

fn line(prefix: &str, row: &Row, more: &str) -> String {
    let (name, kind, help) = (row.name(), row.kind().name(), row.help());
    format!("| `{prefix}_{name}` | {kind} | {help}{more} |\n")
}

fn own() -> String {
    let lines = rows::RDMA.iter().map(|row| line("rdma", row, ""));
    lines.chain(rows::WIRELANE.iter().map(|row| line("wirelane", row, ""))).collect()
}

/// Each metric once, with all its files.
fn counters() -> String {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in TABLE {
        let words = if row.scale == 4 { " × 4" } else { "" };
        let file = format!("`{}/{}`{words}", row.source.name(), row.file);
        files.entry(row.row.name()).or_default().push(file);
    }
    let mut listed = BTreeSet::new();
    let rows = TABLE.iter().filter(|row| listed.insert(row.row.name()));
    rows.map(|row| line("rdma", &row.row, &format!(" | {}", files[row.row.name()].join(", "))))
        .collect()
}

fn statistics() -> String {
    let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for known in STATISTICS {
        names.entry(known.row.name()).or_default().push(format!("`{}`", known.name));
    }
    let mut listed = BTreeSet::new();
    let rows = STATISTICS.iter().filter(|known| listed.insert(known.row.name()));
    rows.map(|known| {
        let labels: Vec<&str> = known.labels.iter().map(|(name, _)| *name).collect();
        let more = format!(" | {} | {}", labels.join(", "), names[known.row.name()].join(", "));
        line("rdma", &known.row, &more)
    })
    .collect()
}
