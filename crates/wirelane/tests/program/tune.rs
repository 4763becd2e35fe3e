//! `tune`, `changes`, `revert` and `capture` on trees of machines. What needs a running machine is in the lab.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::*;

fn tree(name: &str) -> String {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/tests/trees");
    trees.join(format!("{name}.json")).to_str().expect("a plain path").to_owned()
}

/// The exit code, stdout and stderr.
fn outcome(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = wirelane(arguments).stdin(Stdio::null()).output().expect("the program runs");
    (output.status.code(), stdout(&output), stderr(&output))
}

/// A folder with the files of a machine with a soft-RoCE device on a net device of MTU 1500.
fn machine() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    let device = "sys/devices/virtual/infiniband/rxe0";
    write(&format!("{device}/node_type"), "1: CA\n");
    write(&format!("{device}/parent"), "eth0\n");
    write(&format!("{device}/ports/1/state"), "4: ACTIVE\n");
    write(&format!("{device}/ports/1/link_layer"), "Ethernet\n");
    write("sys/devices/virtual/net/eth0/type", "1\n");
    write("sys/devices/virtual/net/eth0/mtu", "1500\n");
    write("sys/devices/system/cpu/online", "0-1\n");
    for cpu in ["cpu0", "cpu1"] {
        let governor = format!("sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor");
        write(&governor, "schedutil\n");
    }
    write("proc/sys/net/core/rmem_max", "212992\n");
    write("etc/hostname", "tree\n");
    for (class, name) in [("infiniband", "rxe0"), ("net", "eth0")] {
        let link = folder.path().join(format!("sys/class/{class}"));
        fs::create_dir_all(&link).expect("a folder");
        let target = format!("../../devices/virtual/{class}/{name}");
        symlink(target, link.join(name)).expect("a link");
    }
    folder
}

/// Every file except the journal.
fn contents(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let kind = fs::symlink_metadata(&path).expect("metadata");
            if kind.is_dir() && path != root.join("var") {
                folders.push(path.clone());
            }
            let bytes = if kind.is_file() { fs::read(&path).expect("a file") } else { vec![] };
            found.insert(path, bytes);
        }
    }
    found.remove(&root.join("var"));
    found
}

#[test]
fn a_plan_is_made_for_every_tree() {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/tests/trees");
    for entry in fs::read_dir(trees).expect("trees") {
        let path = entry.expect("a file").path();
        let root = path.to_str().expect("a plain path");
        for profile in ["latency", "throughput"] {
            let (code, text, error) =
                outcome(&["tune", "plan", "--profile", profile, "--root", root]);
            assert_eq!(code, Some(0), "{root}: {error}");
            assert!(text.contains(&format!("profile {profile}: ")), "{root}: {text}");
            let (code, text, _) =
                outcome(&["tune", "plan", "--json", "--profile", profile, "--root", root]);
            assert_eq!((code, &json(&text)["profile"]), (Some(0), &profile.into()));
        }
    }
}

#[test]
fn a_plan_is_a_diff_with_reasons() {
    let (_, text, _) = outcome(&["tune", "plan", "--only", "mtu", "--root", &tree("mtu")]);
    assert!(text.contains("packets of 4096 need 4200\n"), "{text}");
    assert!(text.contains("    - 1500\n    + 9000\n"), "{text}");
    assert!(
        text.contains("  (until a restart)\n") && text.contains(".rules  (new file)\n"),
        "{text}"
    );
    assert!(text.ends_with("profile throughput: 2 changes, 1 to do manually\n"), "{text}");
}

#[test]
fn a_machine_without_rdma_gets_a_note() {
    let (code, text, _) = outcome(&["tune", "plan", "--root", &tree("empty")]);
    assert_eq!(code, Some(0));
    assert!(text.starts_with("No RDMA device"), "{text}");
    assert!(!text.contains("memlock"), "{text}");
}

#[test]
fn a_tree_is_tuned_listed_and_reverted() {
    let machine = machine();
    let root = machine.path().to_str().expect("a plain path");
    let before = contents(machine.path());
    let (code, _, error) = outcome(&["tune", "apply", "--root", root]);
    assert_eq!(code, Some(2), "nobody was asked: {error}");
    assert_eq!(contents(machine.path()), before);

    let (code, text, error) = outcome(&["tune", "apply", "--yes", "--root", root]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains("    - schedutil  (/sys/devices/system/cpu/cpu0/"), "{text}");
    assert!(error.contains("`wirelane revert --last` reverts them"), "{error}");
    let read = |path: &str| fs::read_to_string(machine.path().join(path)).expect("a file");
    assert_eq!(read("sys/class/net/eth0/mtu"), "9000\n");
    assert_eq!(read("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor"), "performance\n");
    assert!(read("etc/modules-load.d/wirelane.conf").contains("ib_uverbs"));
    let (code, _, error) = outcome(&["tune", "apply", "--root", root]);
    assert_eq!(code, Some(0), "nothing is left to ask for: {error}");

    let (_, text, _) = outcome(&["changes", "--root", root]);
    assert!(text.contains("UTC  tune apply --profile throughput\n"), "{text}");
    assert!(text.contains("/sys/class/net/eth0/mtu  1500 → 9000  (active)"), "{text}");
    fs::write(machine.path().join("sys/class/net/eth0/mtu"), "1500\n").expect("a file");
    let (_, text, _) = outcome(&["changes", "--json", "--root", root]);
    let changes = json(&text);
    let mut listed = changes["changes"].as_array().expect("a list").iter();
    assert!(listed.any(|change| change["status"] == "undone" && change["item"] == "mtu"));

    let (code, text, error) = outcome(&["revert", "--all", "--root", root]);
    assert_eq!(code, Some(0), "{text}{error}");
    assert_eq!(contents(machine.path()), before);
    let (_, text, _) = outcome(&["changes", "--root", root]);
    assert_eq!(text, "all changes were reverted; --all lists them\n");
}

#[test]
fn values_changed_since_are_kept_and_the_exit_code_is_1() {
    let machine = machine();
    let root = machine.path().to_str().expect("a plain path");
    outcome(&["tune", "apply", "--yes", "--only", "mtu", "--root", root]);
    let mtu = machine.path().join("sys/class/net/eth0/mtu");
    fs::write(&mtu, "4500\n").expect("a file");
    let (code, text, _) = outcome(&["revert", "--last", "--root", root]);
    assert_eq!(code, Some(1));
    assert!(text.contains("skipped: it was changed since: 9000 → 4500"), "{text}");
    let (code, text, _) = outcome(&["revert", "1", "--force", "--root", root]);
    assert_eq!(
        (code, fs::read_to_string(&mtu).expect("a file").as_str()),
        (Some(0), "1500\n"),
        "{text}"
    );
    let (code, _, error) = outcome(&["revert", "99", "--root", root]);
    assert!(code == Some(1) && error.contains("there is no change 99"), "{error}");
}

#[test]
fn a_snapshot_is_not_changed_and_unknown_names_are_invalid_usage() {
    let (code, _, error) = outcome(&["tune", "apply", "--yes", "--root", &tree("mtu")]);
    assert!(code == Some(1) && error.contains("nothing can be changed in it"), "{error}");
    let (code, _, error) = outcome(&["tune", "plan", "--only", "speed", "--root", &tree("mtu")]);
    assert!(code == Some(2) && error.contains("governor"), "{error}");
    let (code, _, error) = outcome(&["tune", "plan", "--device", "nic", "--root", &tree("mtu")]);
    assert!(code == Some(2) && error.contains("no RDMA device \"nic\""), "{error}");
    assert_eq!(outcome(&["revert"]).0, Some(2));
}

#[test]
fn the_windows_script_states_that_it_was_not_tested() {
    let (code, text, _) =
        outcome(&["tune", "plan", "--os", "windows", "--device", "SLOT 4 Port 1"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("Not run on Windows by its authors"), "{text}");
    for words in
        ["@('SLOT 4 Port 1')", "Enable-NetAdapterRdma", "'*JumboPacket'", "New-NetQosPolicy"]
    {
        assert!(text.contains(words), "{words}");
    }
}

#[test]
fn capture_shows_what_it_would_see_or_why_it_cannot() {
    let dry = |name: &str| outcome(&["capture", "--dry-run", "--root", &tree(name)]);
    let (code, text, _) = dry("rxe");
    assert!(code == Some(0) && text.contains(" on its net device "), "{text}");
    let (code, _, error) = dry("efa");
    assert!(code == Some(1) && error.contains("packets of EFA cannot be captured"), "{error}");
    let (code, _, error) = dry("mlx5-roce");
    assert!(code == Some(1) && error.contains("bypass the kernel"), "{error}");
    let (code, _, error) = dry("empty");
    assert!(code == Some(1) && error.contains("no RDMA device found"), "{error}");
}
