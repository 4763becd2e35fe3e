//! Files over RDMA, with the kernel's server and client on soft-RoCE.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{run, text};

const WIRELANE: &str = env!("CARGO_BIN_EXE_wirelane");
const SERVER: [&str; 7] = ["nfs", "server", "apply", "/data", "--clients", "10.77.0.0/24", "--yes"];

/// A folder /data that can be exported. The machine's root is an overlay, which cannot: the NFS root is /export
/// instead. The grace period is 10 seconds, not 90.
struct ExportedFolder;

impl ExportedFolder {
    fn make() -> ExportedFolder {
        let script = "mkdir -p /export /data && mount -t tmpfs tmpfs /export && mkdir /export/data && \
                      chmod 1777 /export/data && mount --bind /export/data /data";
        assert!(run("sh", &["-c", script]).status.success());
        let conf = "[exports]\nrootdir=/export\n[nfsd]\ngrace-time=10\nlease-time=10\n";
        fs::write("/etc/nfs.conf.d/lab.conf", conf).expect("a file");
        ExportedFolder
    }
}

impl Drop for ExportedFolder {
    fn drop(&mut self) {
        run("umount", &["/data", "/export"]);
        let _ = fs::remove_file("/etc/nfs.conf.d/lab.conf");
        let _ = fs::remove_dir("/data");
        let _ = fs::remove_dir("/export");
    }
}

/// Everything that exporting and mounting changes: files, mounts, exports, listeners, the module, mountd.
fn state() -> Vec<String> {
    // mount's own state appears with the first mount of any kind.
    let notes = ["-not", "-path", "/run/lab*", "-not", "-path", "/run/mount*"];
    let found = run("find", &[&["/etc", "/mnt", "/run", "-xdev"][..], &notes].concat());
    let exports = fs::read_to_string("/var/lib/nfs/etab").unwrap_or_default();
    // Options are rewritten with each export; their meaning stays the same.
    let exports: Vec<&str> = exports.lines().filter_map(|line| line.split('(').next()).collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let mounts = mounts.lines().filter_map(|line| line.split(' ').nth(4)).collect::<Vec<_>>();
    vec![
        text(&found.stdout),
        mounts.join("\n"),
        exports.join("\n"),
        text(&run("rdma", &["resource", "show", "cm_id"]).stdout),
        Path::new("/sys/module/rpcrdma").exists().to_string(),
        text(&run("pidof", &["rpc.mountd"]).stdout),
    ]
}

fn wirelane(arguments: &[&str]) -> Value {
    let output = run(WIRELANE, &[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The exit code and stderr.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(WIRELANE, arguments);
    (output.status.code(), text(&output.stderr))
}

fn all_reverted(outcomes: &Value) {
    let outcomes = outcomes.as_array().expect("outcomes");
    assert!(!outcomes.is_empty());
    assert!(outcomes.iter().all(|outcome| outcome["outcome"] == "reverted"), "{outcomes:?}");
}

/// 64 MiB with different pages.
/// 4 MiB, or 64 in a long run.
fn bytes(seed: u64) -> Vec<u8> {
    let mib: u64 = if std::env::var_os("WIRELANE_TEST_MIB").is_some() { 64 } else { 4 };
    let numbers = (0..(mib << 20) / 8).map(|n| (n ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    numbers.flat_map(u64::to_le_bytes).collect()
}

#[test]
fn a_folder_is_exported_mounted_and_verified_and_remove_leaves_nothing() {
    let _folder = ExportedFolder::make();
    let before = state();
    let served = wirelane(&SERVER);
    assert_eq!(served["applied"]["changes"].as_array().map(Vec::len), Some(6), "{served}");
    let again = wirelane(&SERVER);
    assert_eq!(again["applied"]["changes"], Value::Array(Vec::new()), "{again}");
    let listeners = text(&run("rdma", &["resource", "show", "cm_id"]).stdout);
    assert!(listeners.contains("state LISTEN ps TCP comm [rpcrdma]"), "{listeners}");

    let point = "/mnt/far/data";
    wirelane(&["nfs", "client", "apply", "10.77.0.2:/data", point, "--persist", "--yes"]);
    let (there, back) = (bytes(1), bytes(2));
    fs::write(format!("{point}/there"), &there).expect("written by the client");
    assert!(fs::read("/data/there").expect("at the server") == there, "files differ");
    fs::write("/data/back", &back).expect("written by the server");
    assert!(fs::read(format!("{point}/back")).expect("by the client") == back, "files differ");

    let verified = wirelane(&["nfs", "verify", point, "--size", "4MiB"]);
    assert_eq!(
        (&verified["rdma"], &verified["proto"]),
        (&true.into(), &"rdma".into()),
        "{verified}"
    );
    assert_eq!(verified["connections"][0]["peer"], "10.77.0.2:20049", "{verified}");
    assert!(verified["by_rdma"]["read_bytes_per_second"].as_f64() > Some(0.0), "{verified}");
    assert!(verified["by_tcp"]["write_bytes_per_second"].as_f64() > Some(0.0), "{verified}");
    let shown = text(&run(WIRELANE, &["nfs", "verify", point, "--no-check"]).stdout);
    assert!(shown.contains("proto=rdma") && shown.ends_with("uses RDMA\n"), "{shown}");
    tcp_is_distinguished_from_rdma();

    all_reverted(&wirelane(&["nfs", "remove"]));
    let after = state();
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
}

/// A mount over TCP in addition to the one over RDMA.
fn tcp_is_distinguished_from_rdma() {
    let point = "/run/by-tcp";
    fs::create_dir(point).expect("a folder");
    let mount = ["10.77.0.2:/data", point, "-o", "proto=tcp,vers=4.1,retry=0"];
    assert!(run("mount.nfs", &mount).status.success());
    let output = run(WIRELANE, &["nfs", "verify", point, "--json"]);
    assert!(run("umount", &[point]).status.success());
    fs::remove_dir(point).expect("removed");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let verified: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&verified["rdma"], &verified["proto"]), (&false.into(), &"tcp".into()));
    let why = verified["why_not"].as_str().expect("a reason");
    assert!(why.contains("mounted without the option rdma"), "{why}");
}

#[test]
fn a_failed_step_reverts_everything() {
    let _folder = ExportedFolder::make();
    let before = state();
    // A server that cannot be started: files and exports were already created.
    let fake = "/lab/fake";
    fs::create_dir(fake).expect("a folder");
    let script = "#!/bin/sh\necho no threads today >&2\nexit 1\n";
    fs::write(format!("{fake}/rpc.nfsd"), script).expect("a file");
    assert!(run("chmod", &["755", &format!("{fake}/rpc.nfsd")]).status.success());
    let path = format!("{fake}:{}", std::env::var("PATH").expect("a path"));
    let output = Command::new(WIRELANE).args(SERVER).env("PATH", path).output().expect("it runs");
    fs::remove_dir_all(fake).expect("removed");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("no threads today") && said.contains("Everything was reverted"),
        "{said}"
    );
    assert_eq!(state(), before);

    // A mount of something that is not exported: its folders and the module were already there.
    let nobody =
        ["nfs", "client", "apply", "10.77.0.2:/data", "/mnt/far/data", "--yes", "--persist"];
    let (code, said) = refused(&nobody);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("mount.nfs 10.77.0.2:/data") && said.contains("reverted"), "{said}");
    assert_eq!(state(), before);
}

#[test]
fn an_nfsd_with_other_exports_is_restarted_only_on_demand() {
    let _folder = ExportedFolder::make();
    fs::create_dir("/export/other").expect("a folder");
    let other = "10.77.0.9:/other";
    let options = "rw,sync,no_subtree_check,fsid=7";
    assert!(run("exportfs", &["-o", options, other]).status.success());
    assert!(run("rpc.nfsd", &["-N", "3", "4"]).status.success());
    assert!(run("rpc.mountd", &["-N", "3"]).status.success());
    let before = state();
    wirelane(&SERVER);
    let ports = || fs::read_to_string("/proc/fs/nfsd/portlist").expect("ports");
    assert!(ports().contains("rdma 20049"), "added while it runs");

    let (code, said) = refused(&["nfs", "remove"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("nfsd also serves /other") && said.contains("--restart-nfsd"), "{said}");
    assert!(ports().contains("rdma 20049"), "nothing was touched");
    all_reverted(&wirelane(&["nfs", "remove", "--restart-nfsd"]));
    assert!(!ports().contains("rdma"), "{}", ports());
    assert_eq!(fs::read_to_string("/proc/fs/nfsd/threads").expect("threads").trim(), "4");
    assert_eq!(state(), before);

    assert!(run("exportfs", &["-u", other]).status.success());
    assert!(run("rpc.nfsd", &["0"]).status.success());
    run("sh", &["-c", "kill $(pidof rpc.mountd); while pidof rpc.mountd; do sleep 0.1; done"]);
    assert!(run("umount", &["/proc/fs/nfsd"]).status.success());
}

#[test]
fn missing_rights_and_requirements_are_reported_before_anything_changes() {
    let _folder = ExportedFolder::make();
    let before = state();
    let (code, said) = refused(&["nfs", "client", "apply", "127.0.0.1:/data", "/mnt/x", "--yes"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no address of an active RDMA port (rxe0: 10.77.0.1"), "{said}");
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", WIRELANE];
    let output = run("setpriv", &[&nobody[..], &SERVER].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("only root may change"), "{}", text(&output.stderr));
    assert_eq!(state(), before);
}
