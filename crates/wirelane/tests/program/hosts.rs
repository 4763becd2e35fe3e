//! Hosts over a real ssh, and compared with each other.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::devices::is_as_in;
use crate::ssh::{DEAD, Hosts};
use crate::{json, stderr, stdout, wirelane};

fn doctor(hosts: &Hosts, peer: &str) -> Output {
    let mut doctor = hosts.command(env!("CARGO_BIN_EXE_wirelane"));
    doctor.args(["doctor", "--json", "--peer", peer]).output().expect("the program runs")
}

#[test]
fn a_peer_is_queried_over_a_real_ssh() {
    let hosts = Hosts::here(&["alpha"]);
    hosts.give_wirelane("alpha");
    let output = doctor(&hosts, "alpha");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    assert_eq!(json(&stdout(&output))["peer"]["name"], "alpha");
    let output = doctor(&hosts, DEAD);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("try `ssh dead true`"), "{}", stderr(&output));
}

/// The shell's settings print a line.
#[test]
fn output_of_a_hosts_shell_settings_is_ignored() {
    let hosts = Hosts::here(&["alpha"]);
    let own = env!("CARGO_BIN_EXE_wirelane");
    let text = format!("#!/bin/sh\necho 'welcome to alpha'\nexec {own} \"$@\"\n");
    hosts.give("alpha", "wirelane", &text);
    let output = doctor(&hosts, "alpha");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    assert_eq!(json(&stdout(&output))["peer"]["name"], "alpha");
}

fn trees() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/tests/trees")
}

/// `hosts check`, with all of its output.
fn check(command: &mut Command, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output =
        command.args(["hosts", "check"]).args(arguments).output().expect("the program runs");
    (output.status.code(), stdout(&output), stderr(&output))
}

/// Hosts that are snapshots of machines.
fn of_trees(arguments: &[&str]) -> (Option<i32>, String, String) {
    check(wirelane(&[]).current_dir(trees()), arguments)
}

/// A host whose `wirelane` reads a tree instead of this machine.
fn pretend(hosts: &Hosts, host: &str, tree: &str) {
    let tree = trees().join(format!("{tree}.json"));
    hosts.give(host, "wirelane", &format!("#!/bin/sh\nexec cat {}\n", tree.display()));
}

#[test]
fn one_table_shows_all_hosts_with_their_differences() {
    let four = "mlx5-roce.json,mtu.json,cx3-port2.json,empty.json";
    let (code, text, complaint) = of_trees(&["--hosts", four]);
    assert_eq!((code, complaint.as_str()), (Some(1), ""));
    is_as_in("four.hosts.txt", &text);
    let (code, text, _) = of_trees(&["--hosts", "ndr8.json,./ndr8.json"]);
    assert_eq!(code, Some(0), "{text}");
    is_as_in("equal.hosts.txt", &text);
    let (code, text, _) = of_trees(&["--hosts", "iommu.json,memlock.json", "--json"]);
    assert_eq!(code, Some(1), "{text}");
    is_as_in("two.hosts.json", &text);
}

#[test]
fn an_unreachable_host_is_reported_with_the_others() {
    let hosts = Hosts::here(&["alpha", "beta", "gamma"]);
    for (host, tree) in [("alpha", "mlx5-roce"), ("beta", "mlx5-roce"), ("gamma", "mtu")] {
        pretend(&hosts, host, tree);
    }
    let wirelane = || hosts.command(env!("CARGO_BIN_EXE_wirelane"));
    let (code, text, complaint) = check(&mut wirelane(), &["--hosts", "alpha:4,beta:4"]);
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{text}");
    assert!(text.ends_with("2 hosts, no differences\n"), "{text}");
    let (code, text, _) = check(&mut wirelane(), &["--hosts", "alpha,beta,gamma"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("! mtu: gamma has 1024 in 1500, but alpha, beta have 4096 in 9000"),
        "{text}"
    );
    let (code, text, complaint) = check(&mut wirelane(), &["--hosts", "alpha,dead,beta"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("\ndead   not reached\n"), "{text}");
    assert!(
        text.contains("! dead: ssh to dead: ") && text.contains("Connection refused"),
        "{text}"
    );
    assert!(complaint.contains("1 of 3 hosts could not be read"), "{complaint}");
    assert_eq!(complaint.trim_end().lines().count(), 1, "{complaint}");
}

#[test]
fn separate_hosts_are_queried_and_nothing_is_left_there() {
    let Some(hosts) = Hosts::apart(&["alpha", "beta"]) else { return };
    hosts.give_wirelane("alpha");
    let mut wirelane = hosts.command(env!("CARGO_BIN_EXE_wirelane"));
    let (code, text, complaint) = check(&mut wirelane, &["--hosts", "alpha,beta,dead", "--json"]);
    assert_eq!(code, Some(3), "{complaint}");
    let rows = json(&text)["rows"].clone();
    let kernel = |at: usize| {
        let cells = rows[at]["cells"].as_array().expect("a list").clone();
        cells.into_iter().find(|cell| cell["fact"] == "kernel").map(|cell| cell["value"].clone())
    };
    assert!(kernel(0).is_some_and(|kernel| kernel.is_string()) && kernel(0) == kernel(1), "{rows}");
    assert_eq!(rows[1]["unreached"], Value::Null);
    assert!(rows[2]["unreached"].as_str().is_some_and(|why| why.contains("ssh to dead")), "{rows}");
    for host in ["alpha", "beta"] {
        assert!(hosts.left(host).is_empty(), "{:?}", hosts.left(host));
    }
}

#[test]
fn a_host_that_cannot_run_the_program_has_a_reason() {
    let hosts = Hosts::here(&["alpha", "beta"]);
    hosts.give("alpha", "wirelane", "#!/bin/sh\necho 'no such thing' >&2\nexit 3\n");
    hosts.give("beta", "mktemp", "#!/bin/sh\necho 'No space left on device' >&2\nexit 1\n");
    let mut wirelane = hosts.command(env!("CARGO_BIN_EXE_wirelane"));
    let (code, text, _) = check(&mut wirelane, &["--hosts", "alpha,beta"]);
    assert_eq!(code, Some(3), "{text}");
    let alpha = "! alpha: `wirelane snapshot -` on alpha ended with code 3: no such thing";
    assert!(text.contains(alpha) && text.contains("No space left on device"), "{text}");
}

#[test]
fn hosts_come_from_files_and_schedulers_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("a plain path").to_owned()
    };
    let mpi = file("hosts", "# mine\nndr8.json slots=8\niommu.json:2\n");
    let yaml =
        file("hosts.yaml", "hosts:\n  - name: one\n    address: ndr8.json\n  - iommu.json\n");
    for arguments in [["--hostfile", &mpi], ["--hostfile", &yaml]] {
        let (code, text, complaint) = of_trees(&arguments);
        assert_eq!((code, complaint.as_str()), (Some(1), ""), "{text}");
        assert!(text.contains("8 NVIDIA H100 SXM5 80GB") && text.contains("2 NVIDIA"), "{text}");
    }
    let by = |variable: &str, value: &str| {
        check(wirelane(&[]).current_dir(trees()).env(variable, value), &[])
    };
    for (variable, value) in [
        ("SLURM_JOB_NODELIST", "ndr[8-8].json,iommu.json"),
        ("OMPI_MCA_orte_default_hostfile", &mpi),
        ("WIRELANE_HOSTS", "ndr8.json:8,iommu.json:2"),
    ] {
        let (code, text, complaint) = by(variable, value);
        assert_eq!((code, complaint.as_str()), (Some(1), ""), "{variable}: {text}");
    }
    let wrong = file("wrong", "node1 slot=4\n");
    for (arguments, words) in [
        (vec![], "no hosts: pass --hosts"),
        (vec!["--hosts", "a:x"], "--hosts has \"a:x\""),
        (vec!["--hosts=-oProxyCommand=x"], "is not a host name"),
        (vec!["--hostfile", &wrong], "line 1 has \"slot=4\""),
    ] {
        let (code, _, complaint) = of_trees(&arguments);
        assert_eq!(code, Some(2), "{complaint}");
        assert!(complaint.contains(words), "{complaint}");
    }
    assert_eq!(of_trees(&["--hostfile", "/nowhere/hosts"]).0, Some(3));
}

#[test]
fn a_mesh_starts_missing_servers_and_ends_them() {
    let Some(hosts) = Hosts::apart(&["alpha", "beta"]) else { return };
    hosts.give_wirelane("alpha");
    let mut mesh = hosts.command(env!("CARGO_BIN_EXE_wirelane"));
    mesh.args(["bench", "mesh", "--hosts", "alpha,beta", "--transport", "tcp", "--json"]);
    let output = mesh.args(["--time", "0.05"]).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{} {}", stdout(&output), stderr(&output));
    let matrix = json(&stdout(&output))["matrix"].clone();
    let gbps = |from: usize, to: usize| matrix["gbps"][from][to].as_f64().unwrap_or(0.0);
    assert!(gbps(0, 1) > 0.0 && gbps(1, 0) > 0.0, "{matrix}");
    crate::lifecycle::until("what was sent along is removed", || hosts.left("beta").is_empty());
    let mut mesh = hosts.command(env!("CARGO_BIN_EXE_wirelane"));
    let output = mesh.args(["bench", "mesh", "--hosts", "alpha,10.77.0.99"]).output();
    let output = output.expect("the program runs");
    assert_eq!(output.status.code(), Some(3), "{}", stdout(&output));
    assert!(stderr(&output).contains("no server answers at 10.77.0.99"), "{}", stderr(&output));
}
