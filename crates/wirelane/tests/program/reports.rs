//! Pages of saved results, and the history.

use std::fs;
use std::path::Path;
use std::process::Output;

use super::*;

/// A result of writes of 64 KiB over TCP.
pub(super) fn result(when: &str, gbps: f64) -> String {
    let point = serde_json::json!({
        "tool": "wirelane", "test": "bw", "operation": "write", "transport": "tcp", "why": "asked for", "from": "gpu1",
        "to": "gpu2:50052", "rails": [], "size_bytes": 65536, "depth": 64, "lanes": 1, "both_ways": false,
        "datagrams": false, "seconds": 2.0, "operations": 1000, "bytes": 65_536_000, "bytes_per_second": gbps * 1.25e8,
        "gbps": gbps, "messages_per_second": 500.0, "latency": null, "cpu_seconds": 1.0, "peer_cpu_seconds": 1.0,
        "cpu_seconds_per_gb": 1.0, "peer_cpu_seconds_per_gb": 1.0, "lost": null, "loss_ratio": null,
        "retransmissions": null, "verified": null, "counters": {}, "peer_counters": {},
    });
    let document = serde_json::json!({
        "format": "wirelane bench 1", "program": "0.1.0", "kind": "bw", "when": when, "host": "gpu1", "peer": "gpu2",
        "points": [point], "verdict": null, "matrix": null, "collective": null,
    });
    document.to_string()
}

/// A history of these bandwidths, one per day.
fn past(days: &[f64]) -> tempfile::TempDir {
    let state = tempfile::tempdir().expect("a folder");
    let folder = state.path().join("wirelane/bench");
    fs::create_dir_all(&folder).expect("a folder");
    for (day, gbps) in days.iter().enumerate() {
        let day = day + 1;
        let text = result(&format!("2026-11-{day:02}T10:00:00Z"), *gbps);
        fs::write(folder.join(format!("202611{day:02}-100000-bw.json")), text).expect("a file");
    }
    state
}

fn history(state: &Path, more: &[&str]) -> Output {
    let mut command = wirelane(&["bench", "history"]);
    command.args(more).env("XDG_STATE_HOME", state).output().expect("the program runs")
}

#[test]
fn a_page_of_saved_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    fs::write(file("one.json"), result("2026-11-01T10:00:00Z", 20.0)).expect("a file");
    fs::write(file("two.json"), result("2026-11-02T10:00:00Z", 23.5)).expect("a file");
    let [one, two, page] = [file("one.json"), file("two.json"), file("page.html")];
    let output = run(&["bench", "report", &one, &two, "-o", &page, "--baseline", &one]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains(&page) && stdout(&output).is_empty());
    let text = fs::read_to_string(&page).expect("a page");
    assert!(text.contains("23.5 Gb/s") && text.contains("data-plot=\"history\""));
    assert!(text.contains("data-plot=\"baseline\""));
    // No temporary file is left.
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3);
}

#[test]
fn an_invalid_result_file_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (wrong, page) = (file("wrong.json"), file("page.html"));
    fs::write(&wrong, "{\"format\": \"wirelane bench 7\"}").expect("a file");
    for (arguments, code, says) in [
        ([&wrong, &page], 3, "wirelane bench 7"),
        ([&file("nothing.json"), &page], 3, "nothing.json"),
        ([&wrong, &file("no/folder/page.html")], 2, "no such directory"),
        ([&wrong, &folder.path().to_str().expect("text").to_owned()], 2, "is a directory"),
    ] {
        let output = run(&["bench", "report", arguments[0], "-o", arguments[1]]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(says) && text.trim_end().lines().count() == 1, "{text}");
    }
    assert!(!Path::new(&page).exists());
}

#[test]
fn a_regression_is_reported() {
    let state = past(&[20.0, 20.4, 19.9, 20.1, 15.0]);
    let output = history(state.path(), &["--check"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("20261105-100000-bw  bandwidth of write, 64 KiB"), "{text}");
    assert!(text.contains("15 Gb/s after 20.1 Gb/s: 25 % less than earlier runs"), "{text}");
    // Without --check it is reported too, but is no failure.
    let output = history(state.path(), &[]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), text));
    assert_eq!(history(state.path(), &["--check", "--worse-than", "30"]).status.code(), Some(0));
    let noisy = past(&[20.0, 12.0, 26.0, 17.0, 15.0]);
    assert_eq!(history(noisy.path(), &["--check"]).status.code(), Some(0));
}

#[test]
fn runs_are_compared_with_the_baseline() {
    let state = past(&[30.0, 20.4, 19.9, 20.1]);
    assert_eq!(history(state.path(), &["--check"]).status.code(), Some(0));
    assert_eq!(history(state.path(), &["baseline", "set", "20261101"]).status.code(), Some(0));
    let output = history(state.path(), &["--check"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("less than the baseline"), "{}", stdout(&output));
    assert_eq!(history(state.path(), &["baseline", "set", "last"]).status.code(), Some(0));
    let listed = json(&stdout(&history(state.path(), &["--json"])));
    let runs = listed["runs"].as_array().expect("a list");
    let baselines: Vec<&Value> = runs.iter().filter(|run| run["is_baseline"] == true).collect();
    assert_eq!((baselines.len(), &baselines[0]["id"]), (1, &"20261104-100000-bw".into()));
    assert_eq!(history(state.path(), &["baseline", "clear", "last"]).status.code(), Some(0));
    assert_eq!(history(state.path(), &["baseline", "set", "nothing"]).status.code(), Some(1));
    assert_eq!(history(state.path(), &["baseline", "set", "2026"]).status.code(), Some(2));
}

#[test]
fn two_runs_are_compared() {
    let state = past(&[20.0, 15.0]);
    let output = history(state.path(), &["compare", "20261101", "last", "--check"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("20 Gb/s") && text.contains("-25.0 %") && text.contains("worse"),
        "{text}"
    );
    let shown = history(state.path(), &["show", "last", "--json"]);
    assert_eq!(json(&stdout(&shown))["points"][0]["gbps"], 15.0);
    let page = state.path().join("page.html");
    let report = ["show", "last", "--report", page.to_str().expect("text")];
    assert_eq!(history(state.path(), &report).status.code(), Some(0));
    assert!(fs::read_to_string(page).expect("a page").contains("15 Gb/s"));
}

#[test]
fn an_unreadable_file_is_skipped_with_a_warning() {
    let state = past(&[20.0, 20.1]);
    let wrong = state.path().join("wirelane/bench/20261103-100000-bw.json");
    fs::write(&wrong, "{\"format\": \"wirelane bench 1\", \"poi").expect("a file");
    let output = history(state.path(), &["--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(json(&stdout(&output))["runs"].as_array().map(Vec::len), Some(2));
    let text = stderr(&output);
    assert!(text.contains("warning") && text.contains(wrong.to_str().expect("text")), "{text}");
    let nothing = tempfile::tempdir().expect("a folder");
    let output = history(nothing.path(), &["--check"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("no saved runs"), "{}", stdout(&output));
}

#[test]
fn a_run_writes_a_page_and_is_saved() {
    let state = tempfile::tempdir().expect("a folder");
    let page = state.path().join("page.html");
    let bench = |more: &[&str]| {
        let mut command =
            wirelane(&["bench", "bw", "--local", "--transport", "shm", "--count", "1000"]);
        command.args(["--size", "4096"]).args(more).env("XDG_STATE_HOME", state.path());
        command.output().expect("the program runs")
    };
    let output = bench(&["--report", page.to_str().expect("text"), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed = json(&stdout(&output));
    let kept = json(&stdout(&history(state.path(), &["show", "last", "--json"])));
    assert_eq!(printed, kept);
    let errors = stderr(&output);
    let saved = errors.lines().find_map(|line| line.strip_prefix("saved: ")).expect("the path");
    let saved = saved.split(" (").next().expect("a path");
    assert!(saved.starts_with(state.path().to_str().expect("text")), "{saved}");
    assert_eq!(json(&fs::read_to_string(saved).expect("a file")), kept);
    let text = fs::read_to_string(&page).expect("a page");
    assert!(text.contains("wirelane bench bw --local --op write --transport shm --size 4KiB"));
    let output = bench(&["--no-save"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(!stderr(&output).contains("saved: "), "{}", stderr(&output));
    let listed = json(&stdout(&history(state.path(), &["--json"])));
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1));
    // A page that cannot be written is reported before anything is measured.
    let output = bench(&["--report", "/nowhere/page.html"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()));
}

/// A result that could not be saved is still printed.
#[test]
fn a_history_that_cannot_be_written_is_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state");
    fs::write(&file, "a file, where a folder should be").expect("a file");
    let output = wirelane(&["bench", "lat", "--local", "--transport", "tcp", "--count", "100"])
        .env("XDG_STATE_HOME", &file)
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("warning") && stderr(&output).contains("--no-save"));
}

/// A log was measured elsewhere: it has a page, and is not saved.
#[test]
fn a_log_of_nccl_is_a_page() {
    let state = tempfile::tempdir().expect("a folder");
    let (log, page) = (state.path().join("run.log"), state.path().join("page.html"));
    let header = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n";
    let rows = "     1048576        262144     float     sum      -1   521.7    2.01    2.01      0   520.1    2.02    2.02      0\n\
                \x20   134217728      33554432     float     sum      -1  36975    3.63    3.63      0  36970    3.63    3.63      0\n";
    fs::write(&log, format!("{header}{rows}# Avg bus bandwidth    : 2.82\n")).expect("a file");
    let output = wirelane(&["bench", "nccl", "--read", log.to_str().expect("text"), "--report"])
        .arg(&page)
        .env("XDG_STATE_HOME", state.path())
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = fs::read_to_string(&page).expect("a page");
    assert!(text.contains("data-plot=\"collective\"") && text.contains("3.63"));
    assert!(stdout(&history(state.path(), &[])).contains("no saved runs"));
}
