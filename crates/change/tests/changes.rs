//! Changes applied to a tree and reverted.
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use change::{
    Change, ChangeStatus, Journal, Machine, Plan, RevertMode, RevertOutcome, Selection, State,
    Target, apply, revert,
};

/// A tree with a few files.
struct Tree {
    folder: tempfile::TempDir,
    machine: Machine,
}

const MTU: &str = "/sys/class/net/eth0/mtu";
const LIMITS: &str = "/etc/security/limits.d/90-wirelane.conf";

impl Tree {
    fn new() -> Tree {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().join("sys/devices/virtual/net/eth0");
        fs::create_dir_all(&real).expect("a folder");
        fs::create_dir_all(folder.path().join("sys/class/net")).expect("a folder");
        fs::write(real.join("mtu"), "1500\n").expect("a file");
        let link = folder.path().join("sys/class/net/eth0");
        symlink("../../devices/virtual/net/eth0", link).expect("a link");
        fs::create_dir_all(folder.path().join("etc/sysctl.d")).expect("a folder");
        let machine = Machine::at(folder.path()).expect("a machine");
        Tree { folder, machine }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).expect("a file")
    }

    /// Every file and folder but the journal's, with content and mode.
    fn contents(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        walk(self.folder.path(), &mut found);
        found.retain(|path, _| !path.starts_with(self.path("/var")));
        found
    }

    fn statuses(&self) -> Vec<ChangeStatus> {
        let history = Journal::read(&self.machine).expect("a journal");
        let reader = self.machine.reader().expect("a reader");
        history.entries.iter().map(|entry| entry.status(&self.machine, &reader)).collect()
    }

    fn revert(&self, selection: Selection, force: bool) -> Vec<RevertOutcome> {
        let mode = RevertMode::default().force(force);
        let outcomes = revert(&self.machine, &selection, mode, 2).expect("reverts");
        outcomes.into_iter().map(|outcome| outcome.outcome).collect()
    }

    /// The journal's path and lines.
    fn journal(&self) -> (PathBuf, Vec<String>) {
        let journal = self.path("/var/lib/wirelane/changes");
        let text = fs::read_to_string(&journal).expect("a journal");
        (journal, text.lines().map(str::to_owned).collect())
    }
}

fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let metadata = fs::symlink_metadata(&path).expect("metadata");
        let bytes = if metadata.is_file() { fs::read(&path).expect("a file") } else { Vec::new() };
        found.insert(path.clone(), (metadata.permissions().mode(), bytes));
        if metadata.is_dir() {
            walk(&path, found);
        }
    }
}

fn plan(changes: impl IntoIterator<Item = Change>) -> Plan {
    let mut plan = Plan::default();
    for change in changes {
        plan.step("item", "why", change, false);
    }
    plan
}

fn three_changes() -> Plan {
    plan([
        Change::value(MTU, "9000"),
        Change::file(LIMITS, "* - memlock unlimited\n"),
        Change::file("/etc/sysctl.d/90-wirelane.conf", "vm.nr_hugepages = 512\n"),
    ])
}

/// The kernel separates columns by tabs, and a plan by spaces.
#[test]
fn columns_are_restored_with_their_tabs() {
    const BUFFERS: &str = "/proc/sys/net/ipv4/tcp_rmem";
    let tree = Tree::new();
    fs::create_dir_all(tree.path("/proc/sys/net/ipv4")).expect("a folder");
    fs::write(tree.path(BUFFERS), "4096\t131072\t6291456\n").expect("a file");
    let before = tree.contents();
    let same = plan([Change::value(BUFFERS, "4096 131072 6291456")]);
    let outcome = apply(&tree.machine, &same, "tune apply", 1).expect("applied");
    assert_eq!((outcome.changes.len(), outcome.unchanged), (0, 1), "it differs only in tabs");
    let wanted = Change::value(BUFFERS, "4096 131072 67108864");
    apply(&tree.machine, &plan([wanted]), "tune apply", 1).expect("applied");
    assert_eq!(tree.text(BUFFERS), "4096 131072 67108864\n");
    let outcomes = tree.revert(Selection::All, false);
    let change = "4096 131072 67108864 → 4096 131072 6291456".to_owned();
    assert_eq!(outcomes, [RevertOutcome::Reverted(change)]);
    assert_eq!(tree.contents(), before);
}

#[test]
fn everything_is_as_it_was_after_revert() {
    let tree = Tree::new();
    fs::write(tree.path("/etc/sysctl.d/90-wirelane.conf"), "older\n").expect("a file");
    let old = fs::Permissions::from_mode(0o640);
    fs::set_permissions(tree.path("/etc/sysctl.d/90-wirelane.conf"), old).expect("rights");
    let before = tree.contents();
    let applied = apply(&tree.machine, &three_changes(), "tune apply", 1).expect("applies");
    assert_eq!(applied.changes, [1, 2, 3]);
    assert_eq!(tree.text(MTU), "9000\n");
    assert_eq!(tree.text(LIMITS), "* - memlock unlimited\n");
    let mode = |path| fs::metadata(tree.path(path)).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode("/etc/sysctl.d/90-wirelane.conf"), 0o640, "the mode is unchanged");
    assert_eq!((mode(LIMITS), mode("/var/lib/wirelane/changes")), (0o644, 0o600));
    assert_eq!(tree.statuses(), [ChangeStatus::Active, ChangeStatus::Active, ChangeStatus::Active]);

    let outcomes = tree.revert(Selection::Last, false);
    assert!(
        outcomes.iter().all(|outcome| matches!(outcome, RevertOutcome::Reverted(_))),
        "{outcomes:?}"
    );
    assert_eq!(tree.contents(), before, "files, modes and folders");
    assert_eq!(
        tree.statuses(),
        [ChangeStatus::Reverted, ChangeStatus::Reverted, ChangeStatus::Reverted]
    );
    assert!(tree.revert(Selection::All, false).is_empty(), "nothing is left to revert");
}

#[test]
fn a_file_with_a_secret_is_restored_completely() {
    let tree = Tree::new();
    let theirs = "# theirs\npassword = abc\n";
    fs::write(tree.path("/etc/sysctl.d/90-wirelane.conf"), theirs).expect("a file");
    apply(&tree.machine, &three_changes(), "tune apply", 1).expect("applies");
    tree.revert(Selection::All, false);
    assert_eq!(tree.text("/etc/sysctl.d/90-wirelane.conf"), theirs);
}

#[test]
fn a_second_run_changes_nothing() {
    let tree = Tree::new();
    apply(&tree.machine, &three_changes(), "tune apply", 1).expect("applies");
    let again = apply(&tree.machine, &three_changes(), "tune apply", 1).expect("applies");
    assert_eq!((again.changes.len(), again.unchanged), (0, 3));
    assert_eq!(tree.statuses().len(), 3);
}

#[test]
fn a_failed_step_reverts_the_others() {
    let tree = Tree::new();
    let before = tree.contents();
    let mut changes = three_changes();
    changes.step("bad", "why", Change::value("/sys/class/net/eth0/gone", "1"), false);
    let error = apply(&tree.machine, &changes, "tune apply", 1).expect_err("fails");
    assert!(!error.is_refusal());
    let text = error.to_string();
    assert!(text.contains("Everything was reverted") && error.item() == Some("bad"), "{text}");
    assert_eq!(tree.contents(), before);
}

#[test]
fn an_unreadable_target_is_refused_before_anything_is_changed() {
    let tree = Tree::new();
    fs::create_dir(tree.path("/etc/a-folder")).expect("a folder");
    let before = tree.contents();
    let mut changes = three_changes();
    changes.step("bad", "why", Change::file("/etc/a-folder", "x"), false);
    let error = apply(&tree.machine, &changes, "tune apply", 1).expect_err("refused");
    assert!(error.is_refusal() && error.to_string().contains("/etc/a-folder"), "{error}");
    assert_eq!(tree.contents(), before);
    assert!(!tree.path("/var").exists(), "not even a journal");
}

#[test]
fn a_target_that_was_changed_since_is_skipped_unless_forced() {
    let tree = Tree::new();
    apply(&tree.machine, &three_changes(), "tune apply", 1).expect("applies");
    fs::write(tree.path(MTU), "4200\n").expect("a file");
    assert_eq!(tree.statuses()[0], ChangeStatus::Changed(State::all("4200", 1)));
    let outcomes = tree.revert(Selection::All, false);
    assert!(
        matches!(&outcomes[2], RevertOutcome::Left(why) if why.contains("9000 → 4200")),
        "{outcomes:?}"
    );
    assert_eq!(tree.text(MTU), "4200\n");
    assert!(!tree.path(LIMITS).exists(), "the others are reverted");
    assert!(matches!(
        tree.revert(Selection::Numbers(vec![1]), true)[0],
        RevertOutcome::Reverted(_)
    ));
    assert_eq!(tree.text(MTU), "1500\n");
}

#[test]
fn a_removed_net_device_has_nothing_to_revert() {
    let tree = Tree::new();
    apply(&tree.machine, &plan([Change::value(MTU, "9000")]), "tune apply", 1).expect("applies");
    fs::remove_file(tree.path(MTU)).expect("is there");
    let outcomes = tree.revert(Selection::All, false);
    assert_eq!(outcomes, [RevertOutcome::Nothing("it no longer exists".into())]);
}

#[test]
fn an_old_file_is_restored_even_if_its_folder_was_removed() {
    let tree = Tree::new();
    fs::write(tree.path("/etc/sysctl.d/90-wirelane.conf"), "older\n").expect("a file");
    apply(&tree.machine, &three_changes(), "tune apply", 1).expect("applies");
    fs::remove_dir_all(tree.path("/etc/sysctl.d")).expect("is there");
    assert!(matches!(tree.revert(Selection::Numbers(vec![3]), false)[0], RevertOutcome::Left(_)));
    assert!(matches!(
        tree.revert(Selection::Numbers(vec![3]), true)[0],
        RevertOutcome::Reverted(_)
    ));
    assert_eq!(tree.text("/etc/sysctl.d/90-wirelane.conf"), "older\n");
}

#[test]
fn two_runs_on_the_same_target_are_reverted_newest_first() {
    let tree = Tree::new();
    let set = |value: &str| {
        apply(&tree.machine, &plan([Change::value(MTU, value)]), "tune apply", 1).expect("applies");
    };
    set("4200");
    set("9000");
    assert_eq!(
        tree.statuses(),
        [ChangeStatus::Changed(State::all("9000", 1)), ChangeStatus::Active]
    );
    let dry_run = RevertMode::default().dry_run(true);
    let reports = revert(&tree.machine, &Selection::All, dry_run, 2).expect("a dry run");
    assert_eq!(reports.iter().map(|outcome| outcome.id).collect::<Vec<_>>(), [2, 1]);
    assert!(
        reports.iter().all(|outcome| matches!(outcome.outcome, RevertOutcome::Reverted(_))),
        "{reports:?}"
    );
    assert_eq!(tree.text(MTU), "9000\n", "a dry run changes nothing");
    tree.revert(Selection::Last, false);
    assert_eq!(tree.text(MTU), "4200\n");
    tree.revert(Selection::Last, false);
    assert_eq!(tree.text(MTU), "1500\n");
}

#[test]
fn an_interrupted_run_is_reverted() {
    let tree = Tree::new();
    let before = tree.contents();
    apply(&tree.machine, &three_changes(), "tune apply", 1).expect("applies");
    // As after a crash: the second change was started and not applied, the third's line is partial.
    let (journal, lines) = tree.journal();
    fs::write(&journal, lines[..3].join("\n") + "\n" + &lines[4][..30]).expect("a file");
    fs::remove_file(tree.path("/etc/sysctl.d/90-wirelane.conf")).expect("is there");
    let (folder, name) = LIMITS.rsplit_once('/').expect("a path");
    let half = tree.path(&format!("{folder}/.{name}.wirelane"));
    fs::rename(tree.path(LIMITS), half).expect("is there");
    assert!(Journal::read(&tree.machine).expect("readable").truncated);
    assert_eq!(tree.statuses(), [ChangeStatus::Active, ChangeStatus::Undone]);
    tree.revert(Selection::Last, false);
    assert_eq!(tree.contents(), before, "the folders too");
    assert!(!Journal::read(&tree.machine).expect("readable").truncated, "repaired");
}

#[test]
fn a_partly_set_list_of_values_is_reported_as_interrupted() {
    let tree = Tree::new();
    let paths: Vec<String> = (0..3).map(|cpu| format!("/sys/cpu{cpu}")).collect();
    for path in &paths {
        fs::write(tree.path(path), "powersave\n").expect("a file");
    }
    let change = Change::values(paths.clone(), "performance");
    apply(&tree.machine, &plan([change]), "tune apply", 1).expect("applies");
    let (journal, lines) = tree.journal();
    fs::write(&journal, lines[0].clone() + "\n").expect("a file");
    fs::write(tree.path(&paths[2]), "powersave\n").expect("a file");
    assert_eq!(tree.statuses(), [ChangeStatus::Interrupted]);
    tree.revert(Selection::All, false);
    assert!(paths.iter().all(|path| tree.text(path) == "powersave\n"));
}

#[test]
fn a_second_run_at_the_same_time_is_refused() {
    let tree = Tree::new();
    let held = Journal::open(&tree.machine, 1).expect("opens");
    let error = apply(&tree.machine, &three_changes(), "tune apply", 1).expect_err("locked");
    assert!(error.is_refusal() && error.to_string().contains("another wirelane"), "{error}");
    drop(held);
    apply(&tree.machine, &three_changes(), "tune apply", 1).expect("applies");
}

#[test]
fn links_do_not_lead_out_of_the_tree() {
    let tree = Tree::new();
    let outside = tempfile::tempdir().expect("a folder");
    fs::write(outside.path().join("mtu"), "1500\n").expect("a file");
    fs::create_dir(tree.path("/etc/security")).expect("a folder");
    symlink(outside.path(), tree.path("/etc/security/limits.d")).expect("a link");
    symlink(outside.path().join("mtu"), tree.path("/sys/mtu")).expect("a link");
    let error = apply(&tree.machine, &three_changes(), "tune apply", 1).expect_err("leads out");
    assert!(error.to_string().contains("Everything was reverted"), "{error}");
    assert!(apply(&tree.machine, &plan([Change::value("/sys/mtu", "9000")]), "t", 1).is_err());
    assert_eq!(fs::read_to_string(outside.path().join("mtu")).expect("a file"), "1500\n");
    assert_eq!(fs::read_dir(outside.path()).expect("a folder").count(), 1);
}

#[test]
fn a_file_that_is_a_link_is_not_overwritten() {
    let tree = Tree::new();
    fs::write(tree.path("/etc/elsewhere"), "theirs\n").expect("a file");
    symlink("../elsewhere", tree.path("/etc/sysctl.d/90-wirelane.conf")).expect("a link");
    let error = apply(&tree.machine, &three_changes(), "tune apply", 1).expect_err("a link");
    assert!(error.to_string().contains("is a link"), "{error}");
    assert_eq!(tree.text("/etc/elsewhere"), "theirs\n");
}

#[test]
fn the_read_request_changes_three_bits() {
    let tree = Tree::new();
    let folder = tree.path("/sys/bus/pci/devices/0000:3b:00.0");
    fs::create_dir_all(&folder).expect("a folder");
    let mut config = vec![0; 256];
    config[0x34] = 0x60; // The list begins there,
    config[0x60..0x62].copy_from_slice(&[0x11, 0x70]); // another capability,
    config[0x70..0x72].copy_from_slice(&[0x10, 0x00]); // PCI Express, and in it
    config[0x78..0x7a].copy_from_slice(&[0x3f, 0x29]); // Device Control: 512 bytes a read.
    fs::write(folder.join("config"), &config).expect("a file");
    let target = Target::ReadRequest { pci: "0000:3b:00.0".into() };
    let wanted = State::all("4096", 1);
    apply(&tree.machine, &plan([Change { target, wanted }]), "tune apply", 1).expect("applies");
    let now = fs::read(folder.join("config")).expect("a file");
    assert_eq!(now[0x78..0x7a], [0x3f, 0x59]);
    assert_eq!(now.len(), 256);
    tree.revert(Selection::All, false);
    assert_eq!(fs::read(folder.join("config")).expect("a file"), config);
}

#[test]
fn targets_of_running_machines_are_left_out_in_a_tree() {
    let tree = Tree::new();
    let plan = plan([Change::module("ib_uverbs")]);
    let applied = apply(&tree.machine, &plan, "tune apply", 1).expect("applies");
    assert_eq!(applied.left_out, ["module ib_uverbs"]);
    assert!(applied.changes.is_empty());
}

#[test]
fn a_snapshot_can_be_planned_for_and_not_changed() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let error = Machine::at(file.path()).expect_err("no folder");
    assert!(error.to_string().contains("nothing can be changed in it"), "{error}");
}

#[test]
fn a_value_that_a_file_of_ours_set_again_after_a_restart_is_reverted() {
    let tree = Tree::new();
    apply(&tree.machine, &plan([Change::value(MTU, "9000")]), "tune apply", 1).expect("applies");
    let (journal, lines) = tree.journal();
    let lines: Vec<String> =
        lines.iter().map(|line| line.replace("\"boot\":null", "\"boot\":\"earlier\"")).collect();
    fs::write(&journal, lines.join("\n") + "\n").expect("a file");
    assert_eq!(tree.statuses(), [ChangeStatus::Active]);
    assert!(matches!(tree.revert(Selection::All, false)[..], [RevertOutcome::Reverted(_)]));
    assert_eq!(tree.text(MTU), "1500\n");
}

#[test]
fn a_missing_part_does_not_stop_the_others_from_being_reverted() {
    let tree = Tree::new();
    let cpus: Vec<String> = (0..3).map(|cpu| format!("/sys/devices/cpu{cpu}")).collect();
    cpus.iter().for_each(|cpu| fs::write(tree.path(cpu), "powersave\n").expect("a file"));
    let change = Change::values(cpus.clone(), "performance");
    apply(&tree.machine, &plan([change]), "tune apply", 1).expect("applies");
    fs::remove_file(tree.path(&cpus[1])).expect("a file");
    assert_eq!(tree.statuses(), [ChangeStatus::Active]);
    assert!(matches!(tree.revert(Selection::All, false)[..], [RevertOutcome::Reverted(_)]));
    assert_eq!([tree.text(&cpus[0]), tree.text(&cpus[2])], ["powersave\n", "powersave\n"]);
}

#[test]
fn a_journal_that_others_can_write_is_not_trusted() {
    let tree = Tree::new();
    apply(&tree.machine, &three_changes(), "tune apply", 1).expect("applies");
    let (journal, _) = tree.journal();
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o666)).expect("rights");
    let error = Journal::read(&tree.machine).expect_err("not ours");
    assert!(error.is_refusal() && error.to_string().contains("not trusted"), "{error}");
    assert!(revert(&tree.machine, &Selection::All, RevertMode::default(), 2).is_err());
}

#[test]
fn the_running_machine_is_recognized_by_any_path() {
    let same = Machine::at(Path::new("/proc/self/root")).expect("the root");
    assert!(same.is_live() && !Tree::new().machine.is_live());
}
