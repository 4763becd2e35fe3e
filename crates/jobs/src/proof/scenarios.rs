//! Jobs as people run them, by made-up looks at their hosts.

use node::{Node, Tree};
use serde_json::{Value, json};

use super::{Look, Proof, Wanted, Witness, prove};
use crate::job::Mode;

/// A host with these files and nothing else.
fn host(files: Value) -> Node {
    let document = json!({ "format": "wirelane snapshot 1", "files": files });
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), document.to_string()).expect("written");
    Node::read(&Tree::at(file.path()).expect("a tree"))
}

/// A look by what `PATH:VALUE` lines tell, without their common beginning.
fn look(lines: &[(&str, u64)]) -> Look {
    let lines: Vec<String> =
        lines.iter().map(|(path, value)| format!("/sys/class/{path}:{value}")).collect();
    Look::parse(&lines.join("\n"))
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

const WANTED: Wanted = Wanted { asked: Mode::Auto, planned: Mode::Rdma };

/// Two hosts of one kind, each with these looks.
fn pair(node: &Node, before: &Look, after: &Look, wanted: Wanted) -> Proof {
    let witness = |name| Witness { name, node, before: Some(before), after: Some(after) };
    prove(&[witness("a"), witness("b")], wanted)
}

const SENT: &str = "infiniband/mlx5_0/ports/1/counters/port_xmit_data";
const RECEIVED: &str = "infiniband/mlx5_0/ports/1/counters/port_rcv_data";

#[test]
fn bytes_that_ports_sent_are_what_rdma_transferred() {
    let before = look(&[(SENT, 100), (RECEIVED, 100), ("net/eth0/statistics/tx_bytes", 5)]);
    let after = look(&[
        (SENT, 100 + 5_150_000_000),
        (RECEIVED, 100 + 5_150_000_000),
        ("net/eth0/statistics/tx_bytes", 5 + 1_500_000),
    ]);
    let proof = pair(&infiniband(), &before, &after, WANTED);
    assert_eq!(proof.line(), "RDMA transferred 41.2 GB, TCP 3.0 MB");
    let details = proof.details().join("\n");
    assert!(details.contains("a: mlx5_0 port 1: sent 20.6 GB, received 20.6 GB"), "{details}");
    assert!(details.contains("totals include other jobs"), "{details}");
}

#[test]
fn tcp_over_ipoib_is_not_rdma_although_it_moves_the_same_counters() {
    let ipoib = "net/ib0/statistics";
    let before = look(&[
        (SENT, 0),
        (RECEIVED, 0),
        (&format!("{ipoib}/tx_bytes"), 0),
        (&format!("{ipoib}/rx_bytes"), 0),
        (&format!("{ipoib}/tx_packets"), 0),
    ]);
    let with = |more: u64| {
        look(&[
            (SENT, 260_000_000 + more),
            (RECEIVED, 2_000_000),
            (&format!("{ipoib}/tx_bytes"), 1_000_000_000),
            (&format!("{ipoib}/rx_bytes"), 5_000_000),
            (&format!("{ipoib}/tx_packets"), 500_000),
        ])
    };
    let proof = pair(&infiniband(), &before, &with(0), WANTED);
    assert!(proof.rdma.is_none(), "headers of IPoIB are no RDMA: {}", proof.line());
    assert!(proof.line().starts_with("RDMA was not used, because the RDMA counters did not move"));
    let proof = pair(&infiniband(), &before, &with(1_000_000_000), WANTED);
    let line = proof.line();
    assert!(line.starts_with("RDMA transferred 8.1 GB, TCP 2.0 GB"), "{line}");
    assert!(proof.details()[0].contains("without 1.0 GB of IPoIB"), "{:?}", proof.details());
}

#[test]
fn a_driver_without_bytes_proves_by_packets_and_operations() {
    let counters = "infiniband/rxe0/ports/1/hw_counters";
    let at = |packets: u64, sends: u64, bytes: u64| {
        look(&[
            (&format!("{counters}/sent_pkts"), packets),
            (&format!("{counters}/rcvd_pkts"), packets),
            (&format!("{counters}/rdma_sends"), sends),
            ("net/eth0/statistics/tx_bytes", bytes),
        ])
    };
    let proof = pair(&soft(), &at(7, 1, 0), &at(1507, 41, 800_000), WANTED);
    let line = proof.line();
    assert_eq!(line, "RDMA transferred 3000 packets; net devices, with these in it, 1.6 MB");
    assert!(proof.details()[0].ends_with("rdma_sends 40"), "{:?}", proof.details());
    let still = pair(&soft(), &at(7, 1, 0), &at(9, 1, 0), WANTED);
    assert!(still.rdma.is_none(), "management alone is no use of RDMA");
}

#[test]
fn what_was_not_used_is_said_with_the_reason() {
    let nothing = look(&[(SENT, 5), (RECEIVED, 5)]);
    let told = |node: &Node, wanted| pair(node, &nothing, &nothing, wanted).line();
    let asked = Wanted { asked: Mode::Tcp, planned: Mode::Tcp };
    assert!(told(&infiniband(), asked).contains("not used, because mode tcp asked for TCP"));
    assert!(told(&host(json!({})), WANTED).contains("because a has no RDMA device"));
    let mut down = infiniband();
    down.devices[0].ports[0].state = node::Seen::Absent;
    assert!(told(&down, WANTED).contains("no RDMA port of a is active"));
    let planned = Wanted { asked: Mode::Auto, planned: Mode::Tcp };
    assert!(told(&infiniband(), planned).contains("planned over TCP"));
    let alone = infiniband();
    let alone = Witness { name: "a", node: &alone, before: Some(&nothing), after: Some(&nothing) };
    assert!(prove(&[alone], WANTED).line().contains("all processes ran on a"));
    let blind = infiniband();
    let blind = Witness { name: "a", node: &blind, before: Some(&nothing), after: None };
    let line = prove(&[blind], WANTED).line();
    let unknown = "whether RDMA was used is not known, because a's counters could not be read";
    assert!(line.starts_with(unknown), "{line}");
}

#[test]
fn what_others_moved_is_not_the_jobs() {
    let before = look(&[(SENT, 0), (RECEIVED, 0)]);
    let after = look(&[(SENT, 5_000_000_000), (RECEIVED, 5_000_000_000)]);
    let asked = Wanted { asked: Mode::Tcp, planned: Mode::Tcp };
    let line = pair(&infiniband(), &before, &after, asked).line();
    assert!(line.starts_with("RDMA was not used, because mode tcp asked for TCP"), "{line}");
    assert!(line.contains("ports transferred 40.0 GB meanwhile, of others"), "{line}");
    let node = infiniband();
    let moved = Witness { name: "a", node: &node, before: Some(&before), after: Some(&after) };
    let still = Witness { name: "b", node: &node, before: Some(&before), after: Some(&before) };
    let proof = prove(&[moved, still], WANTED);
    assert!(proof.rdma.is_none() && proof.is_known, "{}", proof.line());
}

#[test]
fn a_counter_that_stands_still_begins_again_or_goes_away_is_told() {
    let before = look(&[(SENT, 4_000_000_000), (RECEIVED, 9_000_000_000)]);
    let after = look(&[(SENT, 4_294_967_295), (RECEIVED, 50_000)]);
    let proof = pair(&infiniband(), &before, &after, WANTED);
    let details = proof.details().join("\n");
    assert!(details.contains("port_transmit_bytes_total is saturated"), "{details}");
    assert!(details.contains("port_receive_bytes_total restarted at 0"), "{details}");
    assert_eq!(proof.hosts[0].ports[0].received.bytes, Some(200_000), "at least this much");
    let gone = pair(&infiniband(), &before, &Look::default(), WANTED);
    assert!(gone.details()[0].contains("mlx5_0 port 1 went away"), "{:?}", gone.details());
}

#[test]
fn lines_that_are_no_counters_change_nothing() {
    let text = "Warning: Permanently added\n/sys/class/net/eth0/statistics/rx_bytes:many\n\
                /sys/class/infiniband/x/ports/one/counters/y:1\n/etc/passwd:7\n::\n";
    assert_eq!(Look::parse(text), Look::default());
}
