//! `cargo xtask compare page`: every comparison on one page of Markdown, to compare machines; and what has changed since an
//! earlier page.

mod earlier;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use serde_json::Value;

use self::earlier::EarlierPage;
use super::pack::Pack;
use super::tools;
use crate::{Failure, shell};

#[derive(Args)]
pub(super) struct PageArgs {
    /// How often each pair is run
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// The file of the page; its rows are saved beside it as .json
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The .json of an earlier page, to mark what has changed; by default that which this page replaces
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
    /// Only these: exporter, fabric, bench, kv
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,
    /// Install missing packages without asking
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(args: &PageArgs) -> Result<(), Failure> {
    let chosen =
        |part: &&Part| args.only.is_empty() || args.only.iter().any(|only| only == part.name);
    let packed = Pack::current().is_some();
    let parts = PARTS.iter().filter(chosen).filter(|part| part.is_packed || !packed);
    let parts: Vec<&Part> = parts.collect();
    if let Some(unknown) =
        args.only.iter().find(|only| PARTS.iter().all(|part| part.name != **only))
    {
        return Err(format!("unknown part {unknown}; parts: exporter, fabric, bench, kv"));
    }
    let folder = if packed { PathBuf::new() } else { shell::target() };
    let out = args.out.clone().unwrap_or_else(|| folder.join("comparison.md"));
    let rows_file = earlier::rows_file(&out);
    let since = args.since.clone().or_else(|| rows_file.exists().then(|| rows_file.clone()));
    let earlier = since.map(|path| EarlierPage::read(&path)).transpose()?;
    let day = shell::output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let (day, machine) = (day.trim(), tools::machine());
    let mut page = heading(args.pairs, day, &machine, earlier.as_ref());
    let (mut measured, mut failed) = (Vec::new(), Vec::new());
    for part in parts {
        let _ = write!(page, "\n## {}\n\n", part.title);
        // A failed part does not discard the others.
        match part.measure(args) {
            Ok(rows) => {
                page += &table(part.name, &rows, earlier.as_ref());
                measured.push((part.name, rows));
            }
            Err(error) => {
                let _ = writeln!(page, "failed: {}", error.lines().last().unwrap_or_default());
                failed.push(part.name);
            }
        }
    }
    let rows = earlier::document(day, &machine, &measured).to_string();
    for (path, text) in [(&out, &page), (&rows_file, &rows)] {
        std::fs::write(path, text).map_err(|error| format!("write {}: {error}", path.display()))?;
    }
    println!("{page}");
    eprintln!("saved as {}", out.display());
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}", failed.join(", "))),
    }
}

/// One comparison.
struct Part {
    name: &'static str,
    title: &'static str,
    /// The option for its number of pairs.
    count: &'static str,
    /// Whether an archive of `compare pack` has its programs.
    is_packed: bool,
}

impl Part {
    /// Runs it as a separate process; a comparison that missed its target still has rows.
    fn measure(&self, args: &PageArgs) -> Result<Vec<Value>, Failure> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["compare", self.name, "--json", self.count, &args.pairs.to_string()]);
        if args.yes {
            command.arg("--yes");
        }
        if Pack::current().is_none() {
            command.current_dir(shell::repository());
        }
        command.stderr(std::process::Stdio::inherit());
        let output = command.output().map_err(|error| format!("run {}: {error}", self.name))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.starts_with('{'));
        let document: Option<Value> = line.and_then(|line| serde_json::from_str(line).ok());
        let rows = document.and_then(|document| document["rows"].as_array().cloned());
        rows.ok_or_else(|| format!("`compare {}` returned no rows", self.name))
    }
}

fn heading(pairs: u32, day: &str, machine: &str, earlier: Option<&EarlierPage>) -> String {
    let mut text = format!(
        "# Wirelane compared with other programs\n\n{day}, {machine}; by `cargo xtask compare page`. Alternating runs, {pairs} \
         pairs each; medians, and the range of the ratios in brackets. A ratio above 1 means that ours is better, for \
         latency too.\n"
    );
    if let Some(EarlierPage { day, machine, .. }) = earlier {
        let _ = writeln!(
            text,
            "\nBefore: the ratio of {day} on {machine}. A ratio is marked if it changed by more than a tenth and left the \
             range that it had."
        );
    }
    text
}

fn table(part: &str, rows: &[Value], earlier: Option<&EarlierPage>) -> String {
    let (title, line) = if earlier.is_some() { (" before |", "---|") } else { ("", "") };
    let mut text = format!(
        "| test | compared with | ours | theirs | ratio | target |{title}\n|---|---|---|---|---|---|{line}\n"
    );
    let before = |row: &Value, peer: &str, ratio: &Value| {
        let change = earlier.map(|page| page.compare(part, word(row, "name"), peer, ratio));
        change.map_or_else(String::new, |change| format!(" {change} |"))
    };
    for row in rows {
        let name = word(row, "name");
        if let Some(error) = row["error"].as_str() {
            let _ = writeln!(text, "| {name} | | failed: {} | | | |", error.replace('|', "/"));
        } else if let Some(ratios) = row["ratios"].as_array() {
            for ratio in ratios {
                text += &of_several(row, ratio);
                text += &before(row, word(ratio, "beside"), ratio);
                text.push('\n');
            }
        } else {
            let unit = word(row, "unit");
            let [ours, theirs] = ["ours", "theirs"].map(|who| number(&row[who]["median"]));
            let _ = writeln!(
                text,
                "| {name} | {} | {ours} {unit} | {theirs} {unit} | {} | {} |{}",
                word(row, "peer"),
                range(&row["ratio"]),
                number(&row["aim"]),
                before(row, word(row, "peer"), &row["ratio"]),
            );
        }
    }
    text
}

/// A row of the store, which is compared with several peers.
fn of_several(row: &Value, ratio: &Value) -> String {
    let unit = word(row, "unit");
    let peer = word(ratio, "beside");
    let programs = row["programs"].as_array().map_or(&[][..], Vec::as_slice);
    let median = |of: &dyn Fn(&str) -> bool| {
        programs
            .iter()
            .find(|program| of(word(program, "program")))
            .map(|program| number(&program["median"]))
    };
    let ours = median(&|name| name == "wirelane").unwrap_or_default();
    let first = peer.to_lowercase();
    let theirs = median(&|name| name.to_lowercase().starts_with(first.as_str()));
    format!(
        "| {} | {peer} | {ours} {unit} | {} | {} | {} |",
        word(row, "name"),
        theirs.map(|theirs| format!("{theirs} {unit}")).unwrap_or_default(),
        range(ratio),
        number(&ratio["aim"]),
    )
}

fn range(ratio: &Value) -> String {
    let [median, min, max] = ["median", "min", "max"].map(|which| number(&ratio[which]));
    format!("{median} ({min}–{max})")
}

/// With three or four digits; empty if missing.
fn number(value: &Value) -> String {
    match value.as_f64() {
        None => String::new(),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn word<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

const PARTS: [Part; 4] = [
    Part {
        name: "exporter",
        title: "The exporter: node_exporter",
        count: "--pairs",
        is_packed: false,
    },
    Part {
        name: "fabric",
        title: "Lanes: UCX, iperf3, perftest",
        count: "--pairs",
        is_packed: true,
    },
    Part { name: "bench", title: "Benchmark: perftest", count: "--pairs", is_packed: false },
    Part {
        name: "kv",
        title: "The store: Redis, memcached, perftest, Mooncake",
        count: "--runs",
        is_packed: true,
    },
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_of_all_comparisons_become_one_table() {
        let spread = |median: f64| json!({ "median": median, "min": 0.5, "max": 2.0 });
        let rows = [
            json!({ "name": "lat", "peer": "ib_write_lat", "unit": "us", "aim": 0.9,
                    "ours": spread(120.0), "theirs": spread(130.0), "ratio": spread(1.08) }),
            json!({ "name": "GET", "unit": "1/s",
                    "programs": [{ "program": "wirelane", "median": 5000.0 },
                                 { "program": "redis, values checked", "median": 1000.0 }],
                    "ratios": [{ "beside": "Redis", "median": 5.0, "min": 4.0, "max": 6.0, "aim": 2.0 }] }),
            json!({ "name": "PUT", "error": "no | server" }),
        ];
        let text = table("kv", &rows, None);
        assert!(
            text.contains("| lat | ib_write_lat | 120.0 us | 130.0 us | 1.08 (0.50–2.00) | 0.90 |"),
            "{text}"
        );
        assert!(
            text.contains("| GET | Redis | 5000 1/s | 1000 1/s | 5.00 (4.00–6.00) | 2.00 |"),
            "{text}"
        );
        assert!(text.contains("| PUT | | failed: no / server | | | |"), "{text}");
    }
}
