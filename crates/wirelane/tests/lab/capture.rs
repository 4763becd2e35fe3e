//! Packets of a transfer, captured by wirelane and read by tshark.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::{run, text, write_bandwidth};

/// A capture that has already started.
fn capture(arguments: &[&str]) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_wirelane"))
        .arg("capture")
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut first = String::new();
    let stderr = child.stderr.as_mut().expect("piped");
    BufReader::new(stderr).read_line(&mut first).expect("a line");
    assert!(first.contains("on its net device v"), "{first}");
    child
}

/// Number of packets that tshark decodes as RoCE v2.
fn roce_packets(file: &str) -> u64 {
    let filter = "infiniband.bth && udp.dstport == 4791";
    let output =
        run("tshark", &["-n", "-r", file, "-Y", filter, "-T", "fields", "-e", "frame.number"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().count() as u64
}

#[test]
fn a_transfers_packets_are_captured_and_wireshark_reads_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let (counted, interrupted) = (file("counted.pcap"), file("interrupted.pcap"));
    let enough =
        capture(&["rxe0", "-o", &counted, "--seconds", "120", "--packets", "200", "--json"]);
    let endless = capture(&["rxe1", "-o", &interrupted, "--seconds", "600", "--json"]);
    let (client, server, printed) = write_bandwidth();
    assert_eq!((client, server), (Some(0), Some(0)), "{printed}");
    let pid = endless.id().to_string();
    assert!(run("kill", &["-INT", &pid]).status.success());

    let output = enough.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let counts = &report["capture"];
    assert_eq!((&counts["packets"], &counts["ended_by"]), (&200.into(), &"packets".into()));
    assert_eq!(counts["roce_v2"], 200, "{counts}");
    assert_eq!(roce_packets(&counted), 200);

    let output = endless.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "Ctrl-C is a good end");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let counts = &report["capture"];
    assert_eq!(counts["ended_by"], "interrupted");
    let packets = counts["roce_v2"].as_u64().expect("a number");
    // 100 writes of 64 KiB in packets of 4096 bytes.
    assert!(packets >= 1600, "{counts}");
    assert_eq!(roce_packets(&interrupted), packets);
}
