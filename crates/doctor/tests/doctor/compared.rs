//! Two machines that are compared, and one machine at two times.

use doctor::checklist::{self, ItemState};
use doctor::{CheckInput, Finding, Severity, peer, run_checks, since};
use node::{Node, Tree};
use serde_json::{Value, json};

use crate::{changed, report, tree};

fn compare(ours: &Tree, theirs: &Tree) -> Vec<Finding> {
    let (here, there) = (Node::read(ours), Node::read(theirs));
    peer::compare(&CheckInput::new(&here, ours), &CheckInput::new(&there, theirs))
}

#[track_caller]
fn has(findings: &[Finding], severity: Severity, words: &str) {
    let found = findings
        .iter()
        .any(|finding| finding.severity == severity && finding.summary.contains(words));
    assert!(found, "no {severity:?} with {words:?} in {findings:#?}");
}

#[track_caller]
fn has_no_fault(findings: &[Finding]) {
    assert!(findings.iter().all(|finding| finding.severity == Severity::Ok), "{findings:#?}");
}

#[test]
fn a_machine_matches_itself() {
    has_no_fault(&compare(&tree("mlx5-roce"), &tree("mlx5-roce")));
    has_no_fault(&compare(&tree("ndr8"), &tree("ndr8")));
}

#[test]
fn machines_that_do_not_match() {
    let roce = tree("mlx5-roce");
    has(
        &compare(&roce, &tree("empty")),
        Severity::Problem,
        "the peer does not have an active RDMA port",
    );
    has(&compare(&roce, &tree("cx3-port2")), Severity::Problem, "no common link layer");
    has(&compare(&roce, &tree("siw")), Severity::Problem, "no common link layer");
    has(&compare(&roce, &tree("mtu")), Severity::Warning, "in the same subnet");
    has(&compare(&roce, &tree("roce-no-ip")), Severity::Problem, "no common RoCE version");
    has(&compare(&roce, &tree("bnxt")), Severity::Warning, "are in the same subnet");
}

#[test]
fn infiniband_needs_the_same_fabric_and_a_common_partition() {
    let ours = tree("cx3-port2");
    let port = "/sys/class/infiniband/mlx4_0/ports/2";
    let limited = changed("cx3-port2", |json| {
        json["files"][format!("{port}/pkeys/0")] = Value::from("0x8001\n")
    });
    has(&compare(&ours, &limited), Severity::Problem, "no common partition");
    let elsewhere = changed("cx3-port2", |json| {
        json["files"][format!("{port}/gids/0")] =
            Value::from("fec0:0000:0000:0001:f452:1403:007b:e0e2\n");
    });
    has(&compare(&ours, &elsewhere), Severity::Problem, "different subnet prefixes");
}

#[test]
fn versions_are_compared() {
    let newer = changed("mlx5-roce", |json| {
        json["files"]["/sys/class/infiniband/mlx5_0/fw_ver"] = Value::from("22.43.2026\n");
        json["files"]["/proc/sys/kernel/osrelease"] = Value::from("6.8.0\n");
    });
    let findings = compare(&tree("mlx5-roce"), &newer);
    has(&findings, Severity::Note, "different firmware of MT4125");
    has(&findings, Severity::Note, "different kernels");
}

#[test]
fn changes_since_a_snapshot() {
    let (then, now) = (
        tree("mlx5-roce"),
        changed("mlx5-roce", |json| {
            let port = "/sys/class/infiniband/mlx5_0/ports/1";
            json["files"][format!("{port}/rate")] = Value::from("25 Gb/sec (1X EDR)\n");
            json["files"][format!("{port}/counters/link_downed")] = Value::from("2\n");
            json["answers"]["ethtool"]["ens1np0"]["speed_mbps"] = json!(25000);
        }),
    );
    let (before, after) = (Node::read(&then), Node::read(&now));
    let since = since::compare((&before, &report(&then)), (&after, &report(&now)));
    let facts: Vec<&str> = since.changes.iter().map(|change| change.fact).collect();
    assert_eq!(facts, ["rate"], "{:?}", since.changes);
    assert_eq!(since.changes[0].after.as_deref(), Some("25 Gb/s (1X EDR)"));
    let counters: Vec<(&str, u64, u64)> = since
        .counters
        .iter()
        .map(|change| (change.counter.as_str(), change.before, change.after))
        .collect();
    assert_eq!(counters, [("link_downed", 0, 2)]);
    let new: Vec<&str> = since.new.iter().map(|finding| finding.check).collect();
    assert_eq!(new, ["rate", "link-errors"]);
    assert!(since.resolved.is_empty());
}

#[test]
fn an_added_or_removed_device_is_one_change() {
    let (then, now) = (tree("ndr8"), tree("mlx5-roce"));
    let (before, after) = (Node::read(&then), Node::read(&now));
    let since = since::compare((&before, &report(&then)), (&after, &report(&now)));
    let resolved =
        since.changes.iter().filter(|change| change.fact == "device" && change.after.is_none());
    let names: Vec<&str> = resolved.map(|change| change.subject.as_str()).collect();
    assert!(names.contains(&"mlx5_1") && !names.contains(&"mlx5_0"), "{names:?}");
    assert!(!since.changes.iter().any(|change| change.subject == "mlx5_1 port 1"));
}

#[test]
fn the_checklist_of_a_machine_in_production() {
    let state = |name: &str, title: &str| {
        let tree = tree(name);
        let node = Node::read(&tree);
        let input = CheckInput::new(&node, &tree);
        let items = checklist::evaluate(&input, &run_checks(&input, &[]));
        let item = items.into_iter().find(|item| item.title.contains(title));
        item.unwrap_or_else(|| panic!("no line {title}")).state
    };
    assert_eq!(state("mlx5-roce", "MTU"), ItemState::Done);
    assert_eq!(state("mtu", "MTU"), ItemState::NotDone);
    assert_eq!(state("memlock", "locked"), ItemState::NotDone);
    assert_eq!(state("ndr8", "GPUs"), ItemState::Done);
    assert_eq!(state("mlx5-roce", "GPUs"), ItemState::DoesNotApply);
    assert_eq!(state("empty", "device present"), ItemState::NotDone);
    assert_eq!(state("memlock", "firewall"), ItemState::Unknown);
}

#[test]
fn an_item_names_every_check_that_contradicts_it() {
    let tree = tree("iommu");
    let node = Node::read(&tree);
    let input = CheckInput::new(&node, &tree);
    let items = checklist::evaluate(&input, &run_checks(&input, &[]));
    let item = |title: &str| {
        items.iter().find(|item| item.title.contains(title)).unwrap_or_else(|| panic!("{title}"))
    };
    for title in ["IOMMU", "GPUDirect"] {
        assert_eq!(item(title).state, ItemState::NotDone, "{title}");
        let why = item(title).why.as_deref().unwrap_or_default();
        assert!(
            why.contains("the IOMMU translates") && why.contains("ACS is on"),
            "{title}: {why}"
        );
    }
}

#[test]
fn what_no_check_decides_is_on_the_checklist() {
    let tree = tree("ndr8");
    let node = Node::read(&tree);
    let input = CheckInput::new(&node, &tree);
    let items = checklist::evaluate(&input, &run_checks(&input, &[]));
    for title in [
        "settings file in place",
        "monitoring installed",
        "tests run",
        "benchmark targets met",
        "fall-back tried",
    ] {
        let item = items.iter().find(|item| item.title == title);
        let item = item.unwrap_or_else(|| panic!("no line {title}"));
        assert_eq!(item.state, ItemState::Unknown, "{title}: a snapshot does not have it");
        assert!(
            item.why.as_deref().is_some_and(|why| why.contains('`')),
            "{title}: {:?}",
            item.why
        );
    }
    let installed = changed("ndr8", |json| {
        json["files"]["/etc/nccl.conf"] = "NCCL_IB_HCA=mlx5_0\n".into();
    });
    let node = Node::read(&installed);
    let input = CheckInput::new(&node, &installed);
    let items = checklist::evaluate(&input, &run_checks(&input, &[]));
    let item = items.iter().find(|item| item.title == "settings file in place");
    assert_eq!(item.map(|item| item.state), Some(ItemState::Done));
}
