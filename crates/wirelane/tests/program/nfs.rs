//! `nfs` on trees of machines. What needs a kernel with NFS and RDMA is in the lab.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

/// The exit code, stdout and stderr.
fn outcome(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = wirelane(arguments).stdin(Stdio::null()).output().expect("the program runs");
    (output.status.code(), stdout(&output), stderr(&output))
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

/// A folder with the files of a machine with a soft-RoCE device, nfs-utils, and a kernel with the module.
fn machine() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let device = "sys/devices/virtual/infiniband/rxe0";
    write(root, &format!("{device}/node_type"), "1: CA\n");
    write(root, &format!("{device}/parent"), "eth0\n");
    write(root, &format!("{device}/ports/1/state"), "4: ACTIVE\n");
    write(root, &format!("{device}/ports/1/link_layer"), "Ethernet\n");
    write(root, "sys/devices/virtual/net/eth0/type", "1\n");
    for (class, name) in [("infiniband", "rxe0"), ("net", "eth0")] {
        fs::create_dir_all(root.join(format!("sys/class/{class}"))).expect("a folder");
        let target = format!("../../devices/virtual/{class}/{name}");
        symlink(target, root.join(format!("sys/class/{class}/{name}"))).expect("a link");
    }
    for program in ["rpc.nfsd", "exportfs", "mount.nfs"] {
        write(root, &format!("usr/sbin/{program}"), "");
    }
    write(root, "proc/sys/kernel/osrelease", "6.12.0\n");
    let module = "kernel/net/sunrpc/xprtrdma/rpcrdma.ko.xz: kernel/net/sunrpc/sunrpc.ko.xz\n";
    write(root, "lib/modules/6.12.0/modules.dep", module);
    write(root, "proc/self/mountinfo", "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    write(root, "etc/fstab", "/dev/sda1 / ext4 defaults 0 1\n");
    fs::create_dir_all(root.join("srv/data")).expect("a folder");
    folder
}

fn path_of(machine: &tempfile::TempDir) -> &str {
    machine.path().to_str().expect("a plain path")
}

const SERVER: [&str; 6] = ["nfs", "server", "plan", "/srv/data", "--clients", "10.0.0.0/24"];
const CLIENT: [&str; 5] = ["nfs", "client", "plan", "10.0.0.1:/data", "/mnt/data"];

/// A refusal of a plan: its one line.
fn refused(arguments: &[&str], root: &str) -> String {
    let (code, text, error) = outcome(&[arguments, &["--root", root]].concat());
    assert_eq!((code, text.as_str()), (Some(1), ""), "{error}");
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    error
}

#[test]
fn a_server_is_planned_as_a_diff_with_reasons() {
    let machine = machine();
    let root = path_of(&machine);
    let (code, text, error) = outcome(&[&SERVER[..], &["--root", root]].concat());
    assert_eq!(code, Some(0), "{error}");
    let line = "+ /srv/data 10.0.0.0/24(rw,sync,root_squash,no_subtree_check)\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("/etc/exports.d/wirelane-srv-data.exports  (new file)\n"), "{text}");
    assert!(text.contains("    + rdma=y\n    + rdma-port=20049\n"), "{text}");
    assert!(text.contains("then: permissions\n  root of a client is nobody here"), "{text}");
    assert!(text.ends_with("3 changes, 3 only on the running machine\n"), "{text}");
    let (_, text, _) = outcome(&[&SERVER[..], &["--read-only", "--json", "--root", root]].concat());
    let plan = json(&text);
    let steps = plan["steps"].as_array().expect("steps");
    let names: Vec<&str> = steps.iter().filter_map(|step| step["item"].as_str()).collect();
    assert_eq!(names, ["module", "module", "exports", "exports", "server", "server"]);
    assert_eq!(steps[3]["wanted"]["values"][0], "ro,sync,root_squash,no_subtree_check");
}

#[test]
fn a_tree_is_served_and_mounted_and_remove_leaves_nothing() {
    let machine = machine();
    let root = path_of(&machine);
    let files = || {
        let find = Command::new("find").args([root, "-not", "-path", "*/var*"]).output();
        let mut files: Vec<String> =
            stdout(&find.expect("find runs")).lines().map(str::to_owned).collect();
        files.sort();
        files
    };
    let before = files();
    let apply = ["nfs", "server", "apply", "/srv/data", "--clients", "a,b", "--root", root];
    let (code, _, error) = outcome(&apply);
    assert_eq!(code, Some(2), "nobody was asked: {error}");
    assert_eq!(files(), before);
    let (code, _, error) = outcome(&[&apply[..], &["--yes"]].concat());
    assert_eq!(code, Some(0), "{error}");
    let mount = ["nfs", "client", "apply", "10.0.0.1:/data", "/mnt/data", "--persist", "--yes"];
    let (code, text, error) = outcome(&[&mount[..], &["--nconnect", "4", "--root", root]].concat());
    assert_eq!(code, Some(0), "{text}{error}");
    let fstab = fs::read_to_string(machine.path().join("etc/fstab")).expect("a file");
    let line =
        "10.0.0.1:/data /mnt/data nfs rdma,port=20049,vers=4.2,nconnect=4,_netdev,nofail 0 0\n";
    assert!(fstab.ends_with(line), "{fstab}");
    // A line that a user adds after ours stays.
    fs::write(machine.path().join("etc/fstab"), format!("{fstab}# mine\n")).expect("a file");

    let (code, text, error) = outcome(&["nfs", "remove", "--root", root]);
    assert_eq!(code, Some(0), "{text}{error}");
    assert_eq!(files(), before, "no file or folder is left");
    let fstab = fs::read_to_string(machine.path().join("etc/fstab")).expect("a file");
    assert_eq!(fstab, "/dev/sda1 / ext4 defaults 0 1\n# mine\n");
    let (code, text, _) = outcome(&["nfs", "remove", "--root", root]);
    assert_eq!((code, text.as_str()), (Some(0), "nothing to revert\n"));
}

#[test]
fn one_folder_of_two_is_removed_and_the_server_stays_for_the_other() {
    let machine = machine();
    let root = path_of(&machine);
    fs::create_dir_all(machine.path().join("srv/more")).expect("a folder");
    for dir in ["/srv/data", "/srv/more"] {
        let apply = ["nfs", "server", "apply", dir, "--clients", "a", "--yes", "--root", root];
        let (code, _, error) = outcome(&apply);
        assert_eq!(code, Some(0), "{error}");
    }
    let there = |path: &str| machine.path().join(path).exists();
    assert_eq!(outcome(&["nfs", "remove", "/srv/data", "--root", root]).0, Some(0));
    assert!(!there("etc/exports.d/wirelane-srv-data.exports"));
    assert!(there("etc/exports.d/wirelane-srv-more.exports"));
    assert!(there("etc/nfs.conf.d/wirelane.conf"), "the other needs it");
    assert_eq!(outcome(&["nfs", "remove", "--root", root]).0, Some(0));
    assert!(!there("etc/nfs.conf.d") && !there("etc/exports.d/wirelane-srv-more.exports"));
}

#[test]
fn removing_a_client_from_the_list_is_refused() {
    let machine = machine();
    let root = path_of(&machine);
    let apply = |clients: &str| {
        outcome(&[
            "nfs",
            "server",
            "apply",
            "/srv/data",
            "--clients",
            clients,
            "--yes",
            "--root",
            root,
        ])
    };
    assert_eq!(apply("a,b").0, Some(0));
    assert_eq!(apply("a,b,c").0, Some(0));
    let (code, _, error) = apply("a,c");
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.contains("also exported to b: run `wirelane nfs remove /srv/data` first"),
        "{error}"
    );
}

#[test]
fn clients_must_be_named() {
    for clients in ["*", "0.0.0.0/0", "a,*.example.org"] {
        let (code, _, error) = outcome(&["nfs", "server", "plan", "/srv", "--clients", clients]);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains("name hosts"), "{error}");
    }
    let (code, _, error) = outcome(&["nfs", "server", "plan", "/srv"]);
    assert_eq!(code, Some(2), "clients are named: {error}");
}

#[test]
fn missing_requirements_are_one_line_with_a_fix() {
    let machine = machine();
    let root = path_of(&machine);
    let path = |path: &str| machine.path().join(path);
    let at = |dir| ["nfs", "server", "plan", dir, "--clients", "a"];
    assert!(refused(&at("/srv/none"), root).contains("there is no folder /srv/none: create it"));
    assert!(refused(&at("/etc/fstab"), root).contains("/etc/fstab is not a folder"));
    let overlay = "24 1 0:9 / / rw - overlay overlay rw\n";
    fs::write(path("proc/self/mountinfo"), overlay).expect("a file");
    assert!(refused(&SERVER, root).contains("is on an overlay"));

    fs::write(path("lib/modules/6.12.0/modules.dep"), "kernel/fs/ext4.ko:\n").expect("a file");
    for plan in [&SERVER[..], &CLIENT] {
        assert!(refused(plan, root).contains("this kernel (6.12.0) has no module rpcrdma"));
    }
    fs::write(path("sys/class/infiniband/rxe0/ports/1/state"), "1: DOWN\n").expect("a file");
    assert!(refused(&CLIENT, root).contains("no port of rxe0 is active"));
    fs::remove_file(path("sys/class/infiniband/rxe0")).expect("gone");
    assert!(refused(&CLIENT, root).contains("there is no RDMA device here"));
    fs::remove_file(path("usr/sbin/mount.nfs")).expect("gone");
    assert!(refused(&CLIENT, root).contains("apt install nfs-common"));
    fs::remove_file(path("usr/sbin/rpc.nfsd")).expect("gone");
    assert!(refused(&SERVER, root).contains("apt install nfs-kernel-server"));
}

#[test]
fn an_existing_tcp_mount_is_refused() {
    let machine = machine();
    let tcp = "40 24 0:40 / /home rw - nfs4 10.0.0.1:/home rw,vers=4.2,proto=tcp,addr=10.0.0.1\n";
    fs::write(machine.path().join("proc/self/mountinfo"), tcp).expect("a file");
    let error = refused(&CLIENT, path_of(&machine));
    assert!(
        error.contains("Linux has one connection") && error.contains("choose version 4.1"),
        "{error}"
    );
    let other = [&CLIENT[..], &["--vers", "4.1", "--root", path_of(&machine)]].concat();
    assert_eq!(outcome(&other).0, Some(0));
}

#[test]
fn an_item_can_be_skipped_and_an_unknown_one_is_invalid_usage() {
    let machine = machine();
    let root = path_of(&machine);
    let (code, text, _) = outcome(&[&SERVER[..], &["--skip", "server", "--root", root]].concat());
    assert!(code == Some(0) && !text.contains("nfs.conf.d"), "{text}");
    let (code, _, error) = outcome(&[&SERVER[..], &["--skip", "nfsd", "--root", root]].concat());
    assert!(code == Some(2) && error.contains("module, exports, server"), "{error}");
}

#[test]
fn a_mount_that_is_not_nfs_fails_verification() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a plain path");
    let (code, text, error) = outcome(&["nfs", "verify", path]);
    assert_eq!((code, text.as_str()), (Some(1), ""));
    assert!(
        error.contains("is not on NFS: it is on") && error.contains("nfs client apply"),
        "{error}"
    );
    let (code, _, error) = outcome(&["nfs", "verify", "/nowhere/at/all"]);
    assert!(code == Some(3) && error.contains("/nowhere/at/all"), "{error}");
}
