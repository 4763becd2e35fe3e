//! `wirelane bench` over soft-RoCE devices and real wires.

use report::{Document, Tool, Transport};

use super::*;

fn bench(arguments: &[&str]) -> Output {
    run(env!("CARGO_BIN_EXE_wirelane"), &[&["bench"], arguments].concat())
}

#[track_caller]
fn document(arguments: &[&str]) -> Document {
    let output = bench(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    Document::parse(&text(&output.stdout)).expect("a document")
}

/// Over the first wire.
const WIRE: [&str; 5] = ["--local", "--device", "rxe0", "--peer-device", "rxe1"];

#[test]
fn every_operation_over_a_wire_with_counters_and_a_verdict() {
    for (test, operation) in [
        ("bw", "write"),
        ("bw", "read"),
        ("bw", "send"),
        ("bw", "atomic"),
        ("lat", "write"),
        ("lat", "send"),
        ("rate", "write"),
    ] {
        let more = ["--op", operation, "--time", "0.3"];
        let document = document(&[&[test], &WIRE[..], &more].concat());
        let point = &document.points[0];
        assert_eq!(point.transport, Transport::Verbs, "{point:?}");
        assert_eq!(point.rails[0].local, "rxe0 port 1", "{point:?}");
        assert_eq!(point.rails[0].peer, "rxe1 port 1", "{point:?}");
        assert!(point.operations > 0 && point.retransmissions.is_some(), "{point:?}");
        let packets = "rxe0 port 1 port_transmit_packets_total";
        assert!(point.counters.get(packets).is_some_and(|count| *count > 0), "{point:?}");
        let verdict = document.verdict.expect("a verdict");
        if test == "bw" {
            assert!(verdict.ratio.is_some_and(|ratio| ratio > 0.0), "{verdict:?}");
            assert!(verdict.bottlenecks[0].what.contains("software"), "{verdict:?}");
        }
    }
}

#[test]
fn a_sweep_is_verified() {
    let sweep = ["--sweep=2..1MiB", "--count", "20", "--warmup", "0", "--verify"];
    let document = document(&[&["bw"], &WIRE[..], &sweep].concat());
    assert_eq!(document.points.len(), 20);
    assert!(document.points.iter().all(|point| point.verified == Some(true)), "{document:?}");
}

#[test]
fn datagrams_and_their_loss_are_counted() {
    let datagrams = ["--ud", "--op", "send", "--time", "0.3"];
    let document = document(&[&["bw"], &WIRE[..], &datagrams].concat());
    let point = &document.points[0];
    assert!(point.datagrams && point.lost.is_some() && point.loss_ratio.is_some(), "{point:?}");
    let output = bench(&[&["bw"], &WIRE[..], &datagrams, &["--size", "64KiB"]].concat());
    assert!(output.status.code() >= Some(2), "longer than a datagram: {}", text(&output.stdout));
}

#[test]
fn expect_decides_the_exit_code() {
    let expect = |measurement: &str| {
        let output =
            bench(&[&["bw"], &WIRE[..], &["--time", "0.3", "--expect", measurement]].concat());
        output.status.code()
    };
    assert_eq!(expect("0.001%"), Some(0));
    assert_eq!(expect("100000%"), Some(1));
    assert_eq!(expect("100000Gb/s"), Some(1));
}

#[test]
fn tcp_and_both_rails_are_in_one_table() {
    let output = bench(&["compare", "--local", "--time", "0.3"]);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for way in ["\nTCP ", "RDMA rxe0 port 1 – rxe1 port 1", "RDMA rxe2 port 1 – rxe3 port 1"] {
        assert!(table.contains(way), "{way} is missing in:\n{table}");
    }
}

#[test]
fn perftest_runs_at_both_ends_with_the_chosen_ports() {
    let count = ["--tool", "perftest", "--count", "200"];
    let measured = document(&[&["bw"], &WIRE[..], &count].concat());
    let point = &measured.points[0];
    assert_eq!(point.tool, Tool::Perftest);
    assert!(point.gbps.is_some_and(|gbps| gbps > 0.0), "{point:?}");
    let latency = document(&[&["lat"], &WIRE[..], &count].concat());
    assert!(latency.points[0].latency.is_some(), "{latency:?}");
    let output = bench(&[&["bw"], &WIRE[..], &["--tool", "perftest", "--print"]].concat());
    let printed = text(&output.stdout);
    assert!(printed.contains("ib_write_bw -F -d rxe1 -i 1 -x 1"), "{printed}");
    assert!(printed.contains("local: ib_write_bw -F -d rxe0 -i 1 -x 1"), "{printed}");
}
