//! Realistic jobs, with artificial samples of their hosts.

use node::{Node, Tree};
use serde_json::{Value, json};

use super::{CounterSample, HostSamples, ModeChoice, Traffic, job_traffic};
use crate::environment::Mode;

/// A host with these files only.
fn host(files: Value) -> Node {
    let document = json!({ "format": "wirelane snapshot 1", "files": files });
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), document.to_string()).expect("written");
    Node::read(&Tree::at(file.path()).expect("a tree"))
}

/// A sample from paths without their common prefix, and values.
fn sample(lines: &[(&str, u64)]) -> CounterSample {
    let lines: Vec<String> =
        lines.iter().map(|(path, value)| format!("/sys/class/{path}:{value}")).collect();
    CounterSample::parse(&lines.join("\n"))
}

fn infiniband() -> Node {
    let port = "/sys/class/infiniband/mlx5_0/ports/1";
    host(json!({
        "/sys/class/infiniband/mlx5_0/node_type": "1: CA\n",
        format!("{port}/state"): "4: ACTIVE\n",
        format!("{port}/link_layer"): "InfiniBand\n",
        format!("{port}/gids/0"): "fe80:0000:0000:0000:0002:c903:00f9:bfa1\n",
        "/sys/class/net/ib0/type": "32\n",
        "/sys/class/net/ib0/address": "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:f9:bf:a1\n",
        "/sys/class/net/eth0/type": "1\n",
        "/sys/class/net/lo/type": "772\n",
    }))
}

fn soft() -> Node {
    let port = "/sys/class/infiniband/rxe0/ports/1";
    host(json!({
        "/sys/class/infiniband/rxe0/parent": "eth0\n",
        format!("{port}/state"): "4: ACTIVE\n",
        format!("{port}/link_layer"): "Ethernet\n",
        "/sys/class/net/eth0/type": "1\n",
    }))
}

const AUTO: ModeChoice = ModeChoice { requested: Mode::Auto, planned: Mode::Rdma };

/// Two equal hosts with these samples.
fn pair(node: &Node, before: &CounterSample, after: &CounterSample, mode: ModeChoice) -> Traffic {
    let host = |name| HostSamples { name, node, before: Some(before), after: Some(after) };
    job_traffic(&[host("a"), host("b")], mode)
}

const SENT: &str = "infiniband/mlx5_0/ports/1/counters/port_xmit_data";
const RECEIVED: &str = "infiniband/mlx5_0/ports/1/counters/port_rcv_data";

#[test]
fn bytes_that_ports_sent_are_what_rdma_transferred() {
    let before = sample(&[(SENT, 100), (RECEIVED, 100), ("net/eth0/statistics/tx_bytes", 5)]);
    let after = sample(&[
        (SENT, 100 + 5_150_000_000),
        (RECEIVED, 100 + 5_150_000_000),
        ("net/eth0/statistics/tx_bytes", 5 + 1_500_000),
    ]);
    let traffic = pair(&infiniband(), &before, &after, AUTO);
    assert_eq!(traffic.line(), "RDMA transferred 41.2 GB, TCP 3.0 MB");
    let details = traffic.details().join("\n");
    assert!(details.contains("a: mlx5_0 port 1: sent 20.6 GB, received 20.6 GB"), "{details}");
    assert!(details.contains("totals include other jobs"), "{details}");
}

#[test]
fn tcp_over_ipoib_is_not_rdma_although_it_moves_the_same_counters() {
    let ipoib = "net/ib0/statistics";
    let before = sample(&[
        (SENT, 0),
        (RECEIVED, 0),
        (&format!("{ipoib}/tx_bytes"), 0),
        (&format!("{ipoib}/rx_bytes"), 0),
        (&format!("{ipoib}/tx_packets"), 0),
    ]);
    let with = |more: u64| {
        sample(&[
            (SENT, 260_000_000 + more),
            (RECEIVED, 2_000_000),
            (&format!("{ipoib}/tx_bytes"), 1_000_000_000),
            (&format!("{ipoib}/rx_bytes"), 5_000_000),
            (&format!("{ipoib}/tx_packets"), 500_000),
        ])
    };
    let traffic = pair(&infiniband(), &before, &with(0), AUTO);
    assert!(traffic.rdma.is_none(), "headers of IPoIB are not RDMA: {}", traffic.line());
    assert!(
        traffic.line().starts_with("RDMA was not used, because the RDMA counters did not change")
    );
    let traffic = pair(&infiniband(), &before, &with(1_000_000_000), AUTO);
    let line = traffic.line();
    assert!(line.starts_with("RDMA transferred 8.1 GB, TCP 2.0 GB"), "{line}");
    assert!(traffic.details()[0].contains("without 1.0 GB of IPoIB"), "{:?}", traffic.details());
}

#[test]
fn without_byte_counters_packets_and_operations_are_used() {
    let counters = "infiniband/rxe0/ports/1/hw_counters";
    let at = |packets: u64, sends: u64, bytes: u64| {
        sample(&[
            (&format!("{counters}/sent_pkts"), packets),
            (&format!("{counters}/rcvd_pkts"), packets),
            (&format!("{counters}/rdma_sends"), sends),
            ("net/eth0/statistics/tx_bytes", bytes),
        ])
    };
    let traffic = pair(&soft(), &at(7, 1, 0), &at(1507, 41, 800_000), AUTO);
    let line = traffic.line();
    assert_eq!(line, "RDMA transferred 3000 packets; net devices, including these, 1.6 MB");
    assert!(traffic.details()[0].ends_with("rdma_sends 40"), "{:?}", traffic.details());
    let still = pair(&soft(), &at(7, 1, 0), &at(9, 1, 0), AUTO);
    assert!(still.rdma.is_none(), "management traffic is not RDMA");
}

#[test]
fn the_reason_is_reported_if_rdma_was_not_used() {
    let nothing = sample(&[(SENT, 5), (RECEIVED, 5)]);
    let line_of = |node: &Node, mode| pair(node, &nothing, &nothing, mode).line();
    let asked = ModeChoice { requested: Mode::Tcp, planned: Mode::Tcp };
    assert!(line_of(&infiniband(), asked).contains("not used, because mode tcp was requested"));
    assert!(line_of(&host(json!({})), AUTO).contains("because a has no RDMA device"));
    let mut down = infiniband();
    down.devices[0].ports[0].state = node::Reading::Absent;
    assert!(line_of(&down, AUTO).contains("no RDMA port of a is active"));
    let planned = ModeChoice { requested: Mode::Auto, planned: Mode::Tcp };
    assert!(line_of(&infiniband(), planned).contains("planned over TCP"));
    let alone = infiniband();
    let alone =
        HostSamples { name: "a", node: &alone, before: Some(&nothing), after: Some(&nothing) };
    assert!(job_traffic(&[alone], AUTO).line().contains("all processes ran on a"));
    let blind = infiniband();
    let blind = HostSamples { name: "a", node: &blind, before: Some(&nothing), after: None };
    let line = job_traffic(&[blind], AUTO).line();
    let unknown = "it is unknown whether RDMA was used, because a's counters could not be read";
    assert!(line.starts_with(unknown), "{line}");
}

#[test]
fn traffic_of_others_is_not_the_jobs() {
    let before = sample(&[(SENT, 0), (RECEIVED, 0)]);
    let after = sample(&[(SENT, 5_000_000_000), (RECEIVED, 5_000_000_000)]);
    let asked = ModeChoice { requested: Mode::Tcp, planned: Mode::Tcp };
    let line = pair(&infiniband(), &before, &after, asked).line();
    assert!(line.starts_with("RDMA was not used, because mode tcp was requested"), "{line}");
    assert!(line.contains("other programs transferred 40.0 GB on the ports"), "{line}");
    let node = infiniband();
    let moved = HostSamples { name: "a", node: &node, before: Some(&before), after: Some(&after) };
    let still = HostSamples { name: "b", node: &node, before: Some(&before), after: Some(&before) };
    let traffic = job_traffic(&[moved, still], AUTO);
    assert!(traffic.rdma.is_none() && traffic.is_known, "{}", traffic.line());
}

#[test]
fn saturated_restarted_and_missing_counters_are_reported() {
    let before = sample(&[(SENT, 4_000_000_000), (RECEIVED, 9_000_000_000)]);
    let after = sample(&[(SENT, 4_294_967_295), (RECEIVED, 50_000)]);
    let traffic = pair(&infiniband(), &before, &after, AUTO);
    let details = traffic.details().join("\n");
    assert!(details.contains("port_transmit_bytes_total is saturated"), "{details}");
    assert!(details.contains("port_receive_bytes_total restarted at 0"), "{details}");
    assert_eq!(traffic.hosts[0].ports[0].received.bytes, Some(200_000), "at least this much");
    let gone = pair(&infiniband(), &before, &CounterSample::default(), AUTO);
    assert!(gone.details()[0].contains("mlx5_0 port 1 disappeared"), "{:?}", gone.details());
}

#[test]
fn lines_without_counters_are_ignored() {
    let text = "Warning: Permanently added\n/sys/class/net/eth0/statistics/rx_bytes:many\n\
                /sys/class/infiniband/x/ports/one/counters/y:1\n/etc/passwd:7\n::\n";
    assert_eq!(CounterSample::parse(text), CounterSample::default());
}
