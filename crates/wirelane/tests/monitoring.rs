//! The program with a real Prometheus: what it scrapes, and whether every query of rules and dashboards has data.
//!
//! Needs `prometheus` and `promtool`, which `cargo xtask test` brings. A private Prometheus scrapes exporters with the
//! trees of crates/node/tests and a store with some traffic, all on this machine and ended with the test.
#![allow(missing_docs, reason = "a test")]

#[path = "monitoring/dashboards.rs"]
mod dashboards;
#[path = "monitoring/names.rs"]
mod names;
#[path = "monitoring/prometheus.rs"]
mod prometheus;
#[path = "monitoring/running.rs"]
mod running;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use prometheus::{Prometheus, Target};
use running::{Running, exporter, store, wirelane};

/// A file or folder of deploy/.
fn deploy(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

/// All files of a folder with this ending.
fn files(folder: PathBuf, ending: &str) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut found: Vec<PathBuf> =
        paths.filter(|path| path.to_str().is_some_and(|path| path.ends_with(ending))).collect();
    found.sort();
    assert!(!found.is_empty(), "no {ending} in {}", folder.display());
    found
}

fn trees() -> Vec<PathBuf> {
    files(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../node/tests/trees"), ".json")
}

fn promtool(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("promtool: {error}"))
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

/// promtool's findings on metrics, one line each.
fn findings(metrics: &str) -> Vec<String> {
    use std::io::Write;
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("promtool runs");
    child.stdin.take().expect("piped").write_all(metrics.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    said(&output).lines().map(str::to_owned).collect()
}

#[test]
fn the_rules_and_the_example_are_valid() {
    for (what, file) in [
        ("config", deploy("prometheus/prometheus.yml")),
        ("rules", deploy("prometheus/rules/wirelane.rules.yml")),
    ] {
        let output = promtool(Command::new("promtool").args(["check", what]).arg(file));
        assert!(output.status.success(), "{what}: {}", said(&output));
    }
}

#[test]
fn every_alert_fires_only_in_its_case() {
    let files = files(deploy("prometheus/tests"), ".test.yml");
    let output = promtool(Command::new("promtool").args(["test", "rules"]).args(files));
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn the_documentation_lists_every_alert() {
    let text = |file: PathBuf| std::fs::read_to_string(file).expect("a file");
    let rules = text(deploy("prometheus/rules/wirelane.rules.yml"));
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let told = text(deploy("../docs/monitoring.md"));
    let rows = told.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let rows = rows.map(|(name, _)| name).filter(|name| !name.ends_with(".json"));
    assert_eq!(rows.collect::<BTreeSet<_>>(), alerts.collect());
}

#[test]
fn metrics_of_all_trees_pass_promtool() {
    for tree in trees() {
        let output =
            wirelane(&["exporter", "--once", "--root"]).arg(&tree).output().expect("it runs");
        assert!(output.status.success(), "{}: {}", tree.display(), said(&output));
        let metrics = String::from_utf8(output.stdout).expect("text");
        assert_eq!(findings(&metrics), [""; 0], "{}", tree.display());
    }
}

#[test]
fn promtool_objects_only_to_the_latency_summary() {
    let folder = tempfile::tempdir().expect("a folder");
    let metrics = store(folder.path()).scrape();
    let wrong = "wirelane_rdma_send_latency_ns metric names should not contain abbreviated units";
    assert_eq!(findings(&metrics), [wrong]);
    assert!(metrics.contains("# TYPE wirelane_rdma_send_latency_seconds histogram"), "{metrics}");
}

/// A Prometheus with its targets.
struct Watched {
    prometheus: Prometheus,
    /// Names of all scraped metrics.
    scraped: BTreeSet<String>,
    _running: Vec<Running>,
    _folder: tempfile::TempDir,
}

fn watch() -> Watched {
    let folder = tempfile::tempdir().expect("a folder");
    let mut targets = Vec::new();
    let mut running = Vec::new();
    let mut scraped = BTreeSet::new();
    for tree in trees() {
        let exporter = exporter(&tree);
        let instance = tree.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        let address = exporter.address.clone();
        targets.push(Target { job: "wirelane-exporter", instance, address });
        running.push(exporter);
    }
    let store = store(folder.path());
    store.traffic();
    let address = store.address.clone();
    targets.push(Target { job: "wirelane-serve", instance: "store".to_owned(), address });
    running.push(store);
    for one in &running {
        scraped.extend(names::of_scrape(&one.scrape()));
    }
    let rules = deploy("prometheus/rules/wirelane.rules.yml");
    let prometheus = Prometheus::start(folder.path(), &rules, &targets, 1);
    Watched { prometheus, scraped, _running: running, _folder: folder }
}

/// One test, since it takes a while until rates are known: every target is up, every rule is evaluated, and every query
/// of every rule and dashboard has an answer or a reason.
#[test]
fn every_query_of_every_rule_and_dashboard_finds_data() {
    let watched = watch();
    let prometheus = &watched.prometheus;
    let rules = prometheus.rules();
    let mut names: BTreeSet<String> = names::of_tables();
    names.extend(watched.scraped.iter().cloned());
    names.extend(rules.iter().filter(|rule| !rule.is_alert).map(|rule| rule.name.clone()));
    names.extend(NOT_OURS.map(str::to_owned));
    names.extend(WITHOUT_DATA.map(|(name, _)| name.to_owned()));

    let mut wrong = Vec::new();
    let mut queries: Vec<(String, String)> = Vec::new();
    let tested = names::alerts_that_fire_in_tests(&files(deploy("prometheus/tests"), ".test.yml"));
    for rule in &rules {
        if rule.is_alert && !tested.contains(&rule.name) {
            wrong.push(format!("{}: no test makes it fire", rule.name));
        }
        if !rule.is_alert {
            queries.push((format!("the rule {}", rule.name), rule.query.clone()));
        }
        if let Some(error) = &rule.error {
            wrong.push(format!("{}: {error}", rule.name));
        }
        wrong.extend(
            names::unknown(&rule.query, &names)
                .map(|name| format!("{}: what is {name}?", rule.name)),
        );
    }
    for file in files(deploy("grafana"), ".json") {
        for (panel, query) in dashboards::queries(&file) {
            wrong.extend(
                names::unknown(&query, &names).map(|name| format!("{panel}: what is {name}?")),
            );
            queries.push((panel, query));
        }
    }
    let reasons: BTreeMap<&str, &str> = WITHOUT_DATA.into_iter().collect();
    let mut unused: BTreeSet<&str> = reasons.keys().copied().collect();
    let limit = Instant::now() + Duration::from_secs(180);
    for (asker, query) in &queries {
        let excused = reasons.keys().find(|metric| query.contains(**metric));
        let found = match excused {
            Some(_) => prometheus.finds(query, Instant::now()),
            None => prometheus.finds(query, limit),
        };
        match (found, excused) {
            (Ok(true), _) => {}
            (Ok(false), Some(metric)) => _ = unused.remove(metric),
            (Ok(false), None) => wrong.push(format!("{asker}: no data for {query}")),
            (Err(error), _) => wrong.push(format!("{asker}: {error} in {query}")),
        }
    }
    wrong.extend(unused.iter().map(|metric| format!("{metric} has data: leave it off the list")));
    wrong.extend(prometheus.broken_words());
    assert!(
        wrong.is_empty(),
        "{} of {} queries:\n{}",
        wrong.len(),
        queries.len(),
        wrong.join("\n")
    );
    assert!(queries.len() > 100, "only {} queries were found", queries.len());
}

/// Metrics of Prometheus itself, and of node_exporter.
const NOT_OURS: [&str; 3] = ["up", "ALERTS", "node_textfile_mtime_seconds"];

/// Metrics that no machine of this test has, and where they are tested instead.
const WITHOUT_DATA: [(&str, &str); 2] = [
    ("wirelane_rdma_rails_up", "no RDMA device can be used here: tests/lab.rs has it"),
    ("wirelane_rdma_send_latency_ns", "nothing uses RDMA here: tests/lab.rs has it"),
];
