//! `setup` on trees of machines of both families, locally and on hosts over ssh. Tests that need a running machine are
//! in the lab.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::devices::is_as_in;
use super::ssh::{DEAD, Hosts};
use super::*;

const DEBIAN: &str = "ID=debian\nVERSION_ID=\"12\"\n";
const ROCKY: &str = "ID=\"rocky\"\nVERSION_ID=\"9.4\"\nID_LIKE=\"rhel centos fedora\"\n";

/// A folder with the files of a machine with soft-RoCE on a net device of MTU 1500, and one service that sets
/// addresses.
fn machine(os_release: &str, service: &str) -> tempfile::TempDir {
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
    write("etc/os-release", os_release);
    write("etc/network/interfaces", "source /etc/network/interfaces.d/*\n");
    write(&format!("etc/systemd/system/multi-user.target.wants/{service}.service"), "");
    for (class, name) in [("infiniband", "rxe0"), ("net", "eth0")] {
        let link = folder.path().join(format!("sys/class/{class}"));
        fs::create_dir_all(&link).expect("a folder");
        symlink(format!("../../devices/virtual/{class}/{name}"), link.join(name)).expect("a link");
    }
    folder
}

fn path(machine: &tempfile::TempDir) -> &str {
    machine.path().to_str().expect("a plain path")
}

/// The exit code, stdout and stderr.
fn outcome(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = wirelane(arguments).stdin(Stdio::null()).output().expect("the program runs");
    (output.status.code(), stdout(&output), stderr(&output))
}

/// Every file with its mode, except the journal.
fn contents(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let kind = fs::symlink_metadata(&path).expect("metadata");
            if path == root.join("var") {
                continue;
            }
            if kind.is_dir() {
                folders.push(path.clone());
            }
            let bytes = if kind.is_file() { fs::read(&path).expect("a file") } else { vec![] };
            found.insert(path, (kind.permissions().mode(), bytes));
        }
    }
    found
}

#[test]
fn a_plan_for_each_family_matches_its_file() {
    for (name, os_release, service) in
        [("debian", DEBIAN, "systemd-networkd"), ("rocky", ROCKY, "NetworkManager")]
    {
        let machine = machine(os_release, service);
        let address = "--address=rxe0=10.0.0.1/24";
        let arguments = ["setup", "mpi", "plan", address, "--root", path(&machine)];
        let before = contents(machine.path());
        let (code, text, error) = outcome(&arguments);
        assert_eq!(code, Some(0), "{error}");
        is_as_in(&format!("{name}.setup.txt"), &text);
        assert_eq!(contents(machine.path()), before, "a plan changes nothing");
    }
}

#[test]
fn a_tree_is_set_up_listed_and_reverted() {
    for (os_release, service, file, mode) in [
        (DEBIAN, "systemd-networkd", "etc/systemd/network/10-wirelane-eth0.network", 0o644),
        (DEBIAN, "networking", "etc/network/interfaces.d/wirelane-eth0", 0o644),
        (
            ROCKY,
            "NetworkManager",
            "etc/NetworkManager/system-connections/wirelane-eth0.nmconnection",
            0o600,
        ),
    ] {
        let machine = machine(os_release, service);
        let root = path(&machine);
        let before = contents(machine.path());
        let address = "--address=rxe0=10.0.0.1/24";
        let apply = ["setup", "rdma", "apply", address, "--root", root];
        let (code, _, error) = outcome(&apply);
        assert_eq!(code, Some(2), "nobody was asked: {error}");
        assert_eq!(contents(machine.path()), before);

        let (code, _, error) = outcome(&[&apply[..], &["--yes"]].concat());
        assert_eq!(code, Some(0), "{error}");
        assert!(error.contains("is not the running machine; `wirelane revert --last`"), "{error}");
        let after = contents(machine.path());
        let (rights, kept) = &after[&machine.path().join(file)];
        assert_eq!(rights & 0o777, mode, "{file}");
        assert!(String::from_utf8_lossy(kept).contains("10.0.0.1/24"), "{file}");
        assert!(after.contains_key(&machine.path().join("etc/modules-load.d/wirelane.conf")));
        let (_, mtu) = &after[&machine.path().join("sys/devices/virtual/net/eth0/mtu")];
        assert_eq!(mtu, b"9000\n");

        let (_, text, _) = outcome(&[&apply[..], &["--yes", "--json"]].concat());
        assert_eq!(json(&text)["applied"]["changes"], Value::Array(vec![]), "so already");
        let (_, text, _) = outcome(&["changes", "--root", root]);
        assert!(text.contains("UTC  setup rdma apply\n"), "{text}");
        let (code, text, error) = outcome(&["revert", "--all", "--root", root]);
        assert_eq!(code, Some(0), "{text}{error}");
        assert_eq!(contents(machine.path()), before, "{service}");
    }
}

#[test]
fn tune_and_setup_share_files_and_the_journal() {
    let machine = machine(DEBIAN, "systemd-networkd");
    let root = path(&machine);
    let only = ["--yes", "--only", "memlock", "--root", root];
    assert_eq!(outcome(&[&["tune", "apply"][..], &only].concat()).0, Some(0));
    let (code, _, error) = outcome(&[&["setup", "rdma", "apply"][..], &only].concat());
    assert!(code == Some(0) && error.contains("nothing was changed"), "{error}");
}

#[test]
fn unknown_and_invalid_arguments_are_reported() {
    let arch = machine("ID=arch\n", "systemd-networkd");
    let (code, _, error) = outcome(&["setup", "rdma", "plan", "--root", path(&arch)]);
    assert!(code == Some(1) && error.contains("this system is \"arch\""), "{error}");
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    let debian = machine(DEBIAN, "systemd-networkd");
    let wrong = |more: &[&str]| {
        let words = [&["setup", "rdma", "plan", "--root", path(&debian)][..], more].concat();
        let (code, _, error) = outcome(&words);
        assert_eq!(code, Some(2), "{more:?}: {error}");
        error
    };
    assert!(wrong(&["--only", "speed"]).contains("items: packages, "));
    assert!(wrong(&["--address", "mlx5_0=10.0.0.1/24"]).contains("RDMA devices: rxe0"));
    assert!(wrong(&["--address", "rxe0=10.0.0.1"]).contains("as mlx5_0=10.0.0.1/24"));
    assert!(wrong(&["--address", "a/rxe0=10.0.0.1/24"]).contains("which is not in --hosts"));
    assert!(wrong(&["--ipoib", "connected"]).contains("no net device here is IPoIB"));
    let twice = wrong(&["--hosts", "a,b", "--address", "rxe0=10.0.0.1/24"]);
    assert!(twice.contains("prefix it with the host, as in a/rxe0=10.0.0.1/24"), "{twice}");
    wrong(&["--hosts", "-oProxyCommand=x"]);
    assert_eq!(outcome(&["setup"]).0, Some(2));
    assert_eq!(outcome(&["setup", "mpi"]).0, Some(2));
    assert_eq!(outcome(&["setup", "nfs", "plan"]).0, Some(2));
}

/// A host whose `wirelane` reads its own tree.
fn furnish(hosts: &Hosts, name: &str, machine: &tempfile::TempDir) {
    let own = env!("CARGO_BIN_EXE_wirelane");
    let words = "$(printf '%s\\n' \"$@\" | grep -v '^--root=')";
    let script = format!("#!/bin/sh\nset -f\nexec {own} {words} --root={}\n", path(machine));
    hosts.give(name, "wirelane", &script);
}

#[test]
fn several_hosts_are_set_up_over_ssh_each_with_its_own_address() {
    let hosts = Hosts::here(&["one", "two"]);
    let (one, two) = (machine(DEBIAN, "systemd-networkd"), machine(ROCKY, "NetworkManager"));
    furnish(&hosts, "one", &one);
    furnish(&hosts, "two", &two);
    let run = |words: &[&str]| {
        let mut command = hosts.command(env!("CARGO_BIN_EXE_wirelane"));
        command.args(["setup", "rdma"]).args(words).stdin(Stdio::null());
        let output = command.output().expect("the program runs");
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let addresses = ["--address=one/rxe0=10.0.0.1/24", "--address=two/rxe0=10.0.0.2/24"];
    let on = ["--hosts", "one,two", addresses[0], addresses[1]];
    let (code, text, error) = run(&[&["plan"][..], &on].concat());
    assert_eq!(code, Some(0), "{text}{error}");
    assert!(text.contains("\none  debian 12: ") && text.contains("\ntwo  rocky 9.4: "), "{text}");
    assert!(text.contains("10-wirelane-eth0.network\n"), "{text}");
    assert_eq!(run(&[&["apply"][..], &on].concat()).0, Some(2), "nobody was asked");

    let (code, text, error) = run(&[&["apply", "--yes", "--json"][..], &on].concat());
    assert_eq!(code, Some(0), "{text}{error}");
    let answer = json(&text);
    assert_eq!(answer["hosts"][1]["host"], "two");
    assert!(
        !answer["hosts"][1]["answer"]["applied"]["changes"].as_array().expect("numbers").is_empty()
    );
    let network = one.path().join("etc/systemd/network/10-wirelane-eth0.network");
    assert!(fs::read_to_string(network).expect("a file").contains("Address=10.0.0.1/24"));
    let keyfile = "etc/NetworkManager/system-connections/wirelane-eth0.nmconnection";
    let keyfile = fs::read_to_string(two.path().join(keyfile)).expect("a file");
    assert!(keyfile.contains("address1=10.0.0.2/24"), "{keyfile}");

    let revert = |words: &[&str]| {
        let mut command = hosts.command(env!("CARGO_BIN_EXE_wirelane"));
        let output = command.arg("revert").args(words).output().expect("the program runs");
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (code, text, error) = revert(&["--last", "--hosts", "one,two", "--dry-run"]);
    assert_eq!(code, Some(0), "{text}{error}");
    assert!(text.contains("would be reverted"), "{text}");
    let (code, text, error) = revert(&["--last", "--hosts", &format!("one,two,{DEAD}")]);
    assert_eq!(code, Some(3), "{text}{error}");
    assert!(text.starts_with("one\n") && text.contains("\ntwo\n"), "{text}");
    assert!(text.contains("\ndead\nssh to dead: "), "{text}");
    assert!(error.contains("not all changes were reverted on 1 of 3 hosts"), "{error}");
    for machine in [&one, &two] {
        let left = contents(machine.path());
        let ours = |path: &&PathBuf| path.to_string_lossy().contains("wirelane-eth0");
        assert_eq!(left.keys().find(ours), None);
    }
    let (code, text, _) = revert(&["--last", "--hosts", "one", "--json"]);
    assert_eq!((code, &json(&text)["hosts"][0]["answer"]), (Some(0), &serde_json::json!([])));
    assert_eq!(revert(&["3", "--hosts", "one"]).0, Some(2), "numbers are a host's own");
}

#[test]
fn a_host_that_refuses_or_does_not_answer_does_not_stop_others() {
    let hosts = Hosts::here(&["one", "arch"]);
    let (one, arch) = (machine(DEBIAN, "networking"), machine("ID=arch\n", "networking"));
    furnish(&hosts, "one", &one);
    furnish(&hosts, "arch", &arch);
    let run = |list: &str| {
        let mut command = hosts.command(env!("CARGO_BIN_EXE_wirelane"));
        let output = command.args(["setup", "rdma", "apply", "--yes", "--hosts", list]).output();
        let output = output.expect("the program runs");
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (code, text, error) = run("one,arch");
    assert_eq!(code, Some(1), "{text}{error}");
    assert!(text.contains("\none   debian 12: ") && text.contains(" changes applied, "), "{text}");
    assert!(text.contains("\narch  ") && text.contains("this system is \"arch\""), "{text}");
    assert!(error.contains("failed on 1 of 2 hosts"), "{error}");
    let (code, text, _) = run(&format!("one,{DEAD}"));
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("ssh to dead: "), "{text}");
}
