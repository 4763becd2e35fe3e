//! Tunes the machine itself, and checks that reverting restores it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{run, text};

const WIRELANE: &str = env!("CARGO_BIN_EXE_wirelane");

/// Everything that tuning changes: values, modules, and every file and folder of /etc with its mode.
fn state() -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    walk(Path::new("/etc"), &mut found);
    let values = (0..4).map(|end| format!("/sys/class/net/v{end}/mtu"));
    let settings = ["vm/nr_hugepages", "net/core/rmem_max", "net/core/wmem_max"];
    let settings = settings.iter().chain(&["net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem"]);
    for path in values.chain(settings.map(|name| format!("/proc/sys/{name}"))) {
        let bytes = fs::read(&path).expect("a value");
        found.insert(path.into(), (0, bytes));
    }
    let loaded = Path::new("/sys/module/rdma_ucm").exists();
    found.insert("rdma_ucm".into(), (loaded.into(), Vec::new()));
    found
}

/// Every file and folder below one, with its mode.
pub(super) fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
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

fn mtu_of_all(mtu: &str) {
    for end in 0..4 {
        assert!(run("ip", &["link", "set", &format!("v{end}"), "mtu", mtu]).status.success());
    }
}

fn wirelane(arguments: &[&str]) -> Value {
    let output = run(WIRELANE, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn value(path: &str) -> String {
    fs::read_to_string(path).expect("a value").trim().to_owned()
}

#[test]
fn tune_apply_then_revert_leaves_the_machine_as_it_was() {
    mtu_of_all("1500");
    assert!(run("modprobe", &["-r", "rdma_ucm"]).status.success());
    let before = state();

    let applied = wirelane(&["tune", "apply", "--yes", "--json"]);
    let made = applied["applied"]["changes"].as_array().expect("numbers").len();
    assert!(made >= 15, "{applied}");
    for end in 0..4 {
        assert_eq!(value(&format!("/sys/class/net/v{end}/mtu")), "9000");
    }
    let pages: u64 = value("/proc/sys/vm/nr_hugepages").parse().expect("a number");
    assert!(pages > 0);
    assert_eq!(value("/proc/sys/net/core/rmem_max"), "67108864");
    assert!(Path::new("/sys/module/rdma_ucm").exists());
    assert!(value("/etc/modules-load.d/wirelane.conf").contains("\nrdma_ucm"));
    let limits = value("/etc/security/limits.d/90-wirelane-memlock.conf");
    assert!(limits.contains("* - memlock unlimited"), "{limits}");
    let kept = value("/etc/sysctl.d/90-wirelane-vm.nr_hugepages.conf");
    assert!(kept.contains(&format!("vm.nr_hugepages = {pages}")), "{kept}");

    let changes = wirelane(&["changes", "--json"]);
    let changes = changes["changes"].as_array().expect("changes");
    assert!(changes.iter().all(|change| change["status"] == "active"), "{changes:?}");
    let again = wirelane(&["tune", "apply", "--yes", "--json"]);
    assert_eq!(again["applied"]["changes"], Value::Array(Vec::new()), "nothing is left to do");

    let outcomes = wirelane(&["revert", "--last", "--json"]);
    let outcomes = outcomes.as_array().expect("outcomes");
    assert_eq!(outcomes.len(), made);
    assert!(outcomes.iter().all(|outcome| outcome["outcome"] == "reverted"), "{outcomes:?}");
    let after = state();
    for (path, was) in &before {
        assert_eq!(after.get(path), Some(was), "{}", path.display());
    }
    assert_eq!(after.len(), before.len(), "no file or folder is left");

    assert!(run("modprobe", &["rdma_ucm"]).status.success());
    mtu_of_all("9000");
}

#[test]
fn without_root_it_is_refused_before_anything_changes() {
    mtu_of_all("1500");
    let before = state();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let output = Command::new("setpriv")
        .args(nobody)
        .args([WIRELANE, "tune", "apply", "--yes", "--only", "mtu"])
        .output()
        .expect("setpriv runs");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("only root may change /sys/class/net/v0/mtu, "), "{said}");
    assert_eq!(state(), before);
    mtu_of_all("9000");
}
