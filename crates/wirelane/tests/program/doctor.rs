//! `wirelane doctor` and `wirelane explain`, on trees of machines.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::{json, run, stderr, stdout, wirelane};

fn tree(name: &str) -> String {
    format!("{}/../node/tests/trees/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

fn doctor(name: &str, arguments: &[&str]) -> Output {
    let root = tree(name);
    run(&[&["doctor", "--root", &root], arguments].concat())
}

#[track_caller]
fn ends(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}{}", stdout(output), stderr(output));
    stdout(output)
}

#[test]
fn a_fault_has_evidence_reason_and_fix() {
    let text = ends(&doctor("cx3-10g", &[]), 1);
    assert!(
        text.starts_with("PROBLEM   mlx4_0 port 2: runs at 10 Gb/s, expected 40 Gb/s"),
        "{text}"
    );
    assert!(text.contains("    read: /sys/class/net/enp3s0d1/speed: 10000\n"), "{text}");
    assert!(
        text.contains("    why:  A bad cable") && text.contains("    fix:  Clean and reseat"),
        "{text}"
    );
    assert!(
        text.contains("note      mlx4_0 port 1: no link; the NIC's cable is on mlx4_0 port 2"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "colour is for terminals");
}

#[test]
fn healthy_machines_get_one_line_and_everything_with_all() {
    let text = ends(&doctor("mlx5-roce", &[]), 0);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("1 RDMA device: ") && text.ends_with("no fault found\n"), "{text}");
    let all = ends(&doctor("mlx5-roce", &["--all"]), 0);
    for words in
        ["ok        mlx5_0 port 1: ACTIVE Ethernet 100 Gb/s", "[memlock]", "[gid]", "[iommu]"]
    {
        assert!(all.contains(words), "{words} is missing in {all}");
    }
}

#[test]
fn exit_codes_for_scripts() {
    ends(&doctor("mtu", &[]), 0);
    ends(&doctor("mtu", &["--strict"]), 1);
    ends(&doctor("mtu", &["--strict", "memlock", "ports"]), 0);
    ends(&doctor("cx3-10g", &["ports"]), 0);
    ends(&doctor("cx3-10g", &["rate"]), 1);
    ends(&doctor("mlx5-roce", &["--expect-rate", "200G"]), 1);
    ends(&doctor("mlx5-roce", &["--expect-rate", "fast"]), 2);
    let wrong = doctor("mlx5-roce", &["memlok"]);
    ends(&wrong, 2);
    assert!(stderr(&wrong).contains("did you mean `memlock`?"), "{}", stderr(&wrong));
    let other = doctor("mlx5-roce", &["foo"]);
    ends(&other, 2);
    let told = stderr(&other);
    assert!(told.contains("no check `foo`") && !told.contains("did you mean"), "{told}");
    let nowhere = run(&["doctor", "--root", "/nowhere"]);
    ends(&nowhere, 3);
}

#[test]
fn lines_are_broken_between_words_on_narrow_terminals() {
    let error = "NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory";
    for (name, arguments) in [
        ("cx3-10g", &["doctor", "--all"][..]),
        ("iommu", &["doctor"]),
        ("iommu", &["doctor", "--checklist"]),
        ("empty", &["doctor"]),
        ("empty", &["doctor", "--list"]),
        ("memlock", &["explain", error]),
        ("ndr8", &["topo"]),
        ("efa", &["topo"]),
    ] {
        let root = tree(name);
        let arguments = [arguments, &["--root", &root]].concat();
        let whole = stdout(&run(&arguments));
        for width in [80, 40] {
            let output = wirelane(&arguments).env("COLUMNS", width.to_string()).output();
            let text = stdout(&output.expect("the program runs"));
            let too_long = text.lines().filter(|line| line.chars().count() > width);
            // A path or command that is longer than the line cannot be broken.
            let breakable: Vec<&str> =
                too_long.filter(|line| line.split_whitespace().count() > 2).collect();
            assert_eq!(breakable, [""; 0], "{arguments:?} at {width}");
            // The same words, in the same order; the table of distances is repeated for each part.
            if arguments[0] != "topo" {
                let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                assert_eq!(words(&text), words(&whole), "{arguments:?} at {width}");
            }
        }
    }
}

#[test]
fn an_invalid_root_is_refused_by_every_command() {
    let bare = tempfile::tempdir().expect("a folder");
    let root = bare.path().to_str().expect("a path");
    for command in ["doctor", "devices", "topo"] {
        let empty = run(&[command, "--root", root]);
        ends(&empty, 3);
        let told = stderr(&empty);
        assert!(told.contains("no /sys and no /proc below it"), "{command}: {told}");
    }
    // A FIFO without a writer: opening it blocks forever.
    let pipe = bare.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("a pipe");
    let output = run(&["doctor", "--root", pipe.to_str().expect("a path")]);
    ends(&output, 3);
    let told = stderr(&output);
    assert!(told.contains("neither a folder nor a regular file"), "{told}");
}

#[test]
fn without_rdma_there_is_one_paragraph() {
    let text = ends(&doctor("empty", &[]), 0);
    assert!(text.starts_with("No RDMA device on this machine"), "{text}");
    assert!(!text.contains("\n\n") && text.lines().count() <= 6, "{text}");
    ends(&doctor("empty", &["--strict"]), 0);
    ends(&doctor("empty", &["--require", "rdma"]), 1);
    assert_eq!(ends(&doctor("empty", &["--quiet"]), 0), "no RDMA device on this machine\n");
}

#[test]
fn an_efa_host_has_findings_on_devices_and_libfabric_files() {
    let text = ends(&doctor("efa", &["libfabric"]), 0);
    for words in [
        "ok        rdmap16s27, rdmap32s27, rdmap144s27, rdmap160s27: EFA efa1, driver 2.10.0, firmware 0.0.0.0",
        "unknown   host: libfabric's providers are known only on the running machine; /opt/amazon/efa/lib64/",
        "read: /opt/amazon/efa/lib64/libfabric.so.1.25.0: version 1.22.0amzn4.0\n",
    ] {
        assert!(text.contains(words), "`{words}` is missing in {text}");
    }
    let answer = json(&ends(&doctor("efa", &["libfabric", "--json"]), 0));
    let severities: Vec<_> =
        answer["findings"].as_array().expect("a list").iter().map(|one| &one["severity"]).collect();
    assert_eq!(severities, ["unknown", "ok"]);
    let list = ends(&doctor("efa", &["--checklist"]), 0);
    assert!(list.contains("unknown         libfabric usable, if needed\n"), "{list}");
}

#[test]
fn quiet_is_one_line() {
    let text = ends(&doctor("saturated", &["--quiet"]), 0);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("1 RDMA device: 2 warnings, 1 note, "), "{text}");
}

#[test]
fn stdout_has_only_complete_json() {
    let output = doctor("roce-no-ip", &["--json", "--checklist"]);
    let answer = json(&ends(&output, 1));
    assert_eq!(answer["format"], "wirelane doctor 1");
    assert_eq!(answer["rdma"], true);
    assert_eq!(answer["counts"]["problem"], 1);
    let worst = &answer["findings"][0];
    assert_eq!(
        (worst["check"].as_str(), worst["severity"].as_str()),
        (Some("gid"), Some("problem"))
    );
    assert_eq!(worst["subjects"][0], "mlx5_0 port 1");
    for field in ["summary", "why"] {
        assert!(worst[field].as_str().is_some_and(|text| !text.is_empty()), "{worst}");
    }
    assert!(
        worst["evidence"][0]["source"].as_str().is_some_and(|source| source.starts_with("/sys/")),
        "{worst}"
    );
    assert!(
        worst["fix"][0].as_str().is_some_and(|line| line.starts_with("ip addr add")),
        "{worst}"
    );
    let undone = answer["checklist"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|item| item["state"] == "not_done");
    assert_eq!(undone.count(), 1);
}

#[test]
fn the_checks_are_listed_and_documented() {
    let list = ends(&run(&["doctor", "--list"]), 0);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
    let page = std::fs::read_to_string(page).expect("the page");
    for line in list.lines() {
        let name = line.split_whitespace().next().expect("a name");
        assert!(page.contains(&format!("| `{name}` |")), "docs/doctor.md has no row for {name}");
    }
    assert!(
        json(&stdout(&run(&["doctor", "--list", "--json"])))
            .as_array()
            .is_some_and(|list| list.len() > 25)
    );
}

#[test]
fn the_checklist_shows_what_is_done() {
    let text = ends(&doctor("mtu", &["--checklist"]), 0);
    assert!(text.contains("done            ports active\n"), "{text}");
    assert!(text.contains("not done        RoCE MTU 4096\n"), "{text}");
    assert!(text.contains(" 1 not done"), "{text}");
    ends(&doctor("mtu", &["--checklist", "--strict"]), 1);
}

#[test]
fn changes_since_a_snapshot_are_shown() {
    let text = ends(&doctor("cx3-10g", &["--since", &tree("cx3-40g")]), 1);
    assert!(text.starts_with("Since then:\n"), "{text}");
    assert!(
        text.contains("mlx4_0 port 2: rate was 40 Gb/s (4X QDR), is 10 Gb/s (1X QDR)"),
        "{text}"
    );
    assert!(text.contains("new: mlx4_0 port 2: runs at 10 Gb/s"), "{text}");
    let same = ends(&doctor("cx3-40g", &["--since", &tree("cx3-40g")]), 0);
    assert!(same.starts_with("Nothing has changed since then."), "{same}");
    ends(&doctor("cx3-40g", &["--since", "/nowhere"]), 3);
}

#[test]
fn two_ends_are_compared_by_their_snapshots() {
    ends(&doctor("mlx5-roce", &["--peer", &tree("mlx5-roce")]), 0);
    ends(&doctor("mlx5-roce", &["--peer", "/nowhere/snapshot.json"]), 3);
    let text = ends(&doctor("mlx5-roce", &["--peer", &tree("cx3-port2")]), 1);
    assert!(text.contains("no common link layer: RoCE here, InfiniBand there"), "{text}");
    let answer = json(&ends(&doctor("mlx5-roce", &["--peer", &tree("mtu"), "--json"]), 0));
    assert!(
        answer["peer"]["summary"].as_str().is_some_and(|line| line.contains("1 warning")),
        "{answer}"
    );
}

/// A fake ssh: it records its arguments, then runs this script.
fn with_ssh(folder: &Path, script: &str, arguments: &[&str]) -> Output {
    let log = folder.join("log");
    let path = folder.join("ssh");
    let text = format!(
        "#!/bin/sh\nfor word in \"$@\"; do echo \"$word\" >> {}; done\n{script}\n",
        log.display()
    );
    std::fs::write(&path, text).expect("a program");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("rights");
    let paths = format!("{}:/usr/bin:/bin", folder.display());
    let root = tree("mlx5-roce");
    let mut command = wirelane(&[&["doctor", "--root", &root], arguments].concat());
    command.env("PATH", paths).output().expect("the program runs")
}

#[test]
fn a_peer_is_queried_over_the_users_ssh() {
    let folder = tempfile::tempdir().expect("a folder");
    let output =
        with_ssh(folder.path(), &format!("exec cat {}", tree("mtu")), &["--peer", "node2", "mtu"]);
    let text = ends(&output, 0);
    assert!(text.contains("RoCE MTU 4096 here, 1024 there"), "{text}");
    let called = std::fs::read_to_string(folder.path().join("log")).expect("the log");
    assert_eq!(
        called,
        "-o\nBatchMode=yes\n-o\nConnectTimeout=5\n--\nnode2\nexec sh -c 'wirelane snapshot -'\n"
    );
}

#[test]
fn without_wirelane_on_the_peer_it_is_uploaded_and_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let there = folder.path().join("there");
    std::fs::create_dir(&there).expect("a folder");
    // The first call finds no program; the second runs the command like the remote shell, and the uploaded program is
    // this one.
    let script = format!(
        "for word in \"$@\"; do last=$word; done\n\
         case $last in wirelane*) exit 127;; esac\n\
         TMPDIR={} exec sh -c \"$last\"",
        there.display()
    );
    let output = with_ssh(folder.path(), &script, &["--peer", "node2", "--json"]);
    // Its findings do not matter: it is the machine that runs this test.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    assert_eq!(answer["peer"]["name"], "node2");
    assert_eq!(std::fs::read_dir(&there).expect("the folder").count(), 0, "what was sent is gone");
}

#[test]
fn unreachable_peers_are_reported_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = with_ssh(
        folder.path(),
        "echo 'ssh: Could not resolve hostname node2' >&2; exit 255",
        &["--peer", "node2"],
    );
    ends(&output, 3);
    assert!(stderr(&output).contains("Could not resolve hostname"), "{}", stderr(&output));
    let output = with_ssh(folder.path(), "echo '{}'", &["--peer", "node2"]);
    ends(&output, 3);
    assert!(stderr(&output).contains("unusable answer from node2"), "{}", stderr(&output));
    for name in ["-oProxyCommand=x", "a b", ""] {
        let output = with_ssh(folder.path(), "exit 0", &[&format!("--peer={name}")]);
        ends(&output, 2);
    }
}

fn explain(name: &str, arguments: &[&str]) -> Output {
    let root = tree(name);
    run(&[&["explain", "--root", &root], arguments].concat())
}

#[test]
fn a_line_is_explained_with_this_nodes_iommu() {
    let text = ends(&explain("iommu", &["IBV_WC_LOC_PROT_ERR(4) vendor_err=81"]), 0);
    assert!(text.contains("IBV_WC_LOC_PROT_ERR (4), vendor error 81 = 0x51"), "{text}");
    assert!(text.contains("It is not 0x81"), "{text}");
    let first = text.lines().position(|line| {
        line.starts_with("  1. the IOMMU translates") && line.ends_with("FOUND HERE")
    });
    assert!(first.is_some(), "{text}");
    assert!(text.contains("read: /sys/kernel/iommu_groups/6/type: DMA-FQ\n"), "{text}");
    assert!(text.contains("  2. ACS on a PCIe switch"), "{text}");
}

#[test]
fn a_log_is_explained_from_stdin() {
    let root = tree("mlx5-roce");
    let mut child = wirelane(&["explain", "--json", "--root", &root])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let log = "starting\n\u{0}\nCompletion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\nscnt=1\n".repeat(3);
    child.stdin.take().expect("stdin").write_all(log.as_bytes()).expect("is read");
    let output = child.wait_with_output().expect("it ends");
    let answer = json(&ends(&output, 0));
    let explained = answer["explained"].as_array().expect("a list");
    let retries =
        explained.iter().find(|one| one["class"] == "retry_exceeded").expect("the status");
    assert_eq!(retries["times"], 3);
    assert_eq!(retries["completion"]["status"]["name"], "IBV_WC_RETRY_EXC_ERR");
    assert_eq!(retries["completion"]["vendor"]["decimal"], 129);
}

#[test]
fn the_error_at_the_end_of_a_long_log_is_found() {
    let root = tree("mlx5-roce");
    let mut child = wirelane(&["explain", "--json", "--root", &root])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut stdin = child.stdin.take().expect("stdin");
    let step = "step 17: loss 0.25, ".repeat(5) + "\n";
    stdin.write_all(step.repeat(12_000).as_bytes()).expect("is read");
    stdin.write_all(&vec![b'x'; 1 << 20]).expect("is read");
    stdin.write_all(b"\nIBV_WC_LOC_PROT_ERR(4) vendor_err=81").expect("is read");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let answer = json(&ends(&output, 0));
    assert_eq!(answer["explained"][0]["class"], "local_protection");
}

#[test]
fn an_unknown_line_is_exit_code_1_with_a_hint() {
    let output = explain("mlx5-roce", &["all is well"]);
    assert_eq!(ends(&output, 1), "");
    assert!(stderr(&output).starts_with("No known error line found"), "{}", stderr(&output));
}
