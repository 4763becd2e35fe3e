//! Findings on whole machines: without faults, and with one that the test adds.
#![allow(clippy::disallowed_methods, reason = "a test creates the files that it reads")]
#![allow(missing_docs, reason = "a test")]

mod compared;
mod explained;
mod libfabric;
mod single_faults;
mod store_disk;

use std::path::{Path, PathBuf};

use doctor::{CheckInput, Expectations, FindingsReport, Severity, run_checks};
use node::{About, Node, Tree};
use serde_json::Value;

/// A fault: check, severity and subject.
type Fault<'f> = (&'f str, Severity, &'f str);

const PROBLEM: Severity = Severity::Problem;
const WARNING: Severity = Severity::Warning;
const NOTE: Severity = Severity::Note;

fn folder() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../node/tests/trees")).to_owned()
}

fn tree(name: &str) -> Tree {
    Tree::at(&folder().join(format!("{name}.json"))).unwrap_or_else(|error| panic!("{error}"))
}

/// A tree with something changed in it.
fn changed(name: &str, change: impl FnOnce(&mut Value)) -> Tree {
    let text = std::fs::read_to_string(folder().join(format!("{name}.json"))).expect("a tree");
    let mut json: Value = serde_json::from_str(&text).expect("JSON");
    change(&mut json);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), json.to_string()).expect("is written");
    Tree::at(file.path()).unwrap_or_else(|error| panic!("{error}"))
}

fn report(tree: &Tree) -> FindingsReport {
    report_with(tree, Expectations::default())
}

fn report_with(tree: &Tree, expectations: Expectations) -> FindingsReport {
    let node = Node::read(tree);
    run_checks(&CheckInput { expectations, ..CheckInput::new(&node, tree) }, &[])
}

/// Findings that are printed by default.
fn faults(report: &FindingsReport) -> Vec<(&str, Severity, String)> {
    let printed = report
        .findings
        .iter()
        .filter(|finding| ![Severity::Ok, Severity::Unknown].contains(&finding.severity));
    printed.map(|finding| (finding.check, finding.severity, finding.subject())).collect()
}

#[track_caller]
fn has(report: &FindingsReport, expected: &[Fault<'_>]) {
    let found = faults(report);
    let found: Vec<Fault<'_>> = found
        .iter()
        .map(|(check, severity, subject)| (*check, *severity, subject.as_str()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn healthy_machines_have_no_fault() {
    for name in ["mlx5-roce", "ndr8", "efa", "bnxt", "irdma", "hfi1", "rxe", "siw"] {
        let report = report(&tree(name));
        assert_eq!(faults(&report), [], "{name}");
        assert!(!report.is_bad(true), "{name}");
        assert!(report.line().ends_with("no fault found"), "{name}: {}", report.line());
    }
}

#[test]
fn notes_are_not_faults() {
    let cable: &[Fault<'_>] = &[("ports", NOTE, "mlx4_0 port 1")];
    let given: &[Fault<'_>] = &[("permissions", NOTE, "mlx5_0, mlx5_1, mlx5_2 and 2 more")];
    let restricted: &[Fault<'_>] =
        &[("unreadable-counters", NOTE, "mlx5_2 port 1"), ("kernel-log", NOTE, "host")];
    for (name, expected) in
        [("cx3-port2", cable), ("cx3-40g", cable), ("pod", given), ("restricted-pf", restricted)]
    {
        let report = report(&tree(name));
        has(&report, expected);
        assert!(!report.is_bad(true), "{name}");
    }
}

#[test]
fn faulty_machines_have_only_their_fault() {
    let port = "mlx5_0 port 1";
    let inputs: &[(&str, &[Fault<'_>])] = &[
        ("cx3-10g", &[("rate", PROBLEM, "mlx4_0 port 2"), ("ports", NOTE, "mlx4_0 port 1")]),
        ("ib-init", &[("ports", PROBLEM, port)]),
        ("roce-no-ip", &[("gid", PROBLEM, port)]),
        ("mtu", &[("mtu", WARNING, port)]),
        ("memlock", &[("memlock", PROBLEM, "host")]),
        ("pcie-narrow", &[("pcie", PROBLEM, "mlx5_1")]),
        ("gpu-no-peermem", &[("gpudirect", WARNING, "host")]),
        ("cx3-gpus", &[("gpudirect", WARNING, "host"), ("numa", NOTE, "GPU 1")]),
        ("vf-zero-guid", &[("guid", PROBLEM, "mlx5_1")]),
        (
            "iommu",
            &[
                ("iommu", PROBLEM, "mlx5_0, mlx5_1, GPU 0, GPU 1"),
                ("acs", PROBLEM, "0000:17:00.0, 0000:17:02.0, 0000:a9:00.0, 0000:a9:02.0"),
            ],
        ),
        (
            "saturated",
            &[("losses", WARNING, port), ("link-errors", WARNING, port), ("saturated", NOTE, port)],
        ),
    ];
    for (name, expected) in inputs {
        let report = report(&tree(name));
        has(&report, expected);
        assert!(report.is_bad(true), "{name}");
        let worst = &report.findings[0];
        assert!(!worst.evidence.is_empty() && !worst.fix.is_empty(), "{name}: {worst:?}");
    }
}

#[test]
fn every_tree_is_tested() {
    let known = [
        "bnxt",
        "cx3-10g",
        "cx3-40g",
        "cx3-gpus",
        "cx3-port2",
        "efa",
        "empty",
        "gpu-no-peermem",
        "hfi1",
        "ib-init",
        "iommu",
        "irdma",
        "memlock",
        "mlx5-roce",
        "mtu",
        "ndr8",
        "pcie-narrow",
        "pod",
        "restricted-pf",
        "roce-no-ip",
        "rxe",
        "saturated",
        "siw",
        "vf-zero-guid",
    ];
    let names =
        std::fs::read_dir(folder()).expect("trees").map(|entry| entry.expect("a name").file_name());
    let names: Vec<String> =
        names.map(|name| name.to_string_lossy().trim_end_matches(".json").to_owned()).collect();
    for name in names {
        assert!(known.contains(&name.as_str()), "add the findings on {name} here");
    }
}

#[test]
fn without_rdma_there_are_no_findings() {
    let report = report(&tree("empty"));
    assert!(report.devices.is_empty());
    has(&report, &[]);
    assert!(!report.is_bad(true));
}

#[test]
fn the_worst_comes_first() {
    for name in ["saturated", "cx3-10g", "iommu"] {
        let report = report(&tree(name));
        let severities: Vec<Severity> =
            report.findings.iter().map(|finding| finding.severity).collect();
        assert!(severities.is_sorted_by(|one, other| one >= other), "{name}: {severities:?}");
    }
}

#[test]
fn a_snapshot_of_a_tree_has_the_same_findings() {
    for name in ["ndr8", "pod", "iommu", "saturated", "cx3-10g"] {
        let first = tree(name);
        let expected = serde_json::to_value(report(&first)).expect("JSON");
        let copy = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(copy.path(), snapshot(&first)).expect("is written");
        let again = Tree::at(copy.path()).expect("the copy");
        assert_eq!(expected, serde_json::to_value(report(&again)).expect("JSON"), "{name}");
    }
}

fn snapshot(tree: &Tree) -> String {
    tree.snapshot(&About::default()).expect("a snapshot")
}
