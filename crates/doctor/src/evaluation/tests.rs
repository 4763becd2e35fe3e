//! Typical runs and their verdicts.

use std::collections::BTreeMap;

use report::{Latency, Operation, Outcome, Plan, Point, Rail, Test, Transport};

use super::*;

fn port(name: &str, data_mbps: u64, slot_gbps: f64) -> PortFacts {
    PortFacts {
        name: name.to_owned(),
        is_software: false,
        is_ethernet: true,
        data_mbps: Some(data_mbps),
        rate: format!("{} Gb/s", data_mbps / 1000),
        hops: vec![Hop {
            what: "PCIe link of 0000:3b:00.0".to_owned(),
            gbps: slot_gbps,
            evidence: "8 GT/s".to_owned(),
        }],
        netdev: None,
    }
}

fn facts(port: PortFacts) -> HostFacts {
    HostFacts { host: "a".to_owned(), ports: vec![port], ..HostFacts::default() }
}

/// A run of two seconds between the first ports of two hosts.
fn point(test: Test, transport: Transport, size: u64, gbps: f64) -> Point {
    let bytes = (gbps / 8.0 * 1e9 * 2.0) as u64;
    let outcome = Outcome {
        plan: Plan::new(test, Operation::Write, transport, size),
        rails: vec![Rail {
            local: "mlx5_0 port 1".to_owned(),
            peer: "mlx5_0 port 1".to_owned(),
            mtu: Some(4096),
            ..Rail::default()
        }],
        seconds: 2.0,
        operations: bytes / size,
        bytes,
        latency: Latency {
            count: 1,
            min_ns: 2000,
            p50_ns: 3000,
            p99_ns: 3500,
            ..Latency::default()
        },
        cpu_seconds: 2.0,
        peer_cpu_seconds: 0.0,
        lost: None,
        verified: None,
        counters: BTreeMap::new(),
        peer_counters: BTreeMap::new(),
    };
    Point::new(&outcome, "a", "b", "")
}

fn text(verdict: &Verdict) -> String {
    verdict
        .bottlenecks
        .iter()
        .map(|one| format!("{}: {}\n", one.what, one.evidence))
        .chain(verdict.notes.iter().cloned())
        .collect()
}

#[test]
fn a_full_link_is_ok() {
    let ends = facts(port("mlx5_0 port 1", 100_000, 126.0));
    let run = [point(Test::Bandwidth, Transport::Verbs, 65536, 96.5)];
    let verdict = evaluate(&run, &ends, Some(&ends));
    let ratio = verdict.ratio.expect("a ratio");
    assert!((0.97..1.0).contains(&ratio), "{verdict:?}");
    assert!(verdict.summary.ends_with(": OK"), "{}", verdict.summary);
    assert!(verdict.bottlenecks.is_empty() && verdict.notes.is_empty(), "{verdict:?}");
}

#[test]
fn the_slower_end_and_the_narrow_slot_are_named() {
    let wide = facts(port("mlx5_0 port 1", 100_000, 126.0));
    let slow = facts(port("mlx5_0 port 1", 40_000, 126.0));
    let run = [point(Test::Bandwidth, Transport::Verbs, 65536, 38.0)];
    let verdict = evaluate(&run, &wide, Some(&slow));
    assert!(verdict.expected_gbps.expect("a bound") < 40.0, "{verdict:?}");
    let narrow = facts(port("mlx5_0 port 1", 100_000, 31.5));
    let run = [point(Test::Bandwidth, Transport::Verbs, 65536, 27.0)];
    let verdict = evaluate(&run, &wide, Some(&narrow));
    assert!(text(&verdict).contains("PCIe link of 0000:3b:00.0"), "{verdict:?}");
    assert!(verdict.ratio.expect("a ratio") > 0.95, "it reaches the rate of its slot");
}

#[test]
fn twelve_percent_of_the_link_has_bottlenecks() {
    let ends = facts(port("mlx5_0 port 1", 100_000, 126.0));
    let mut slow = point(Test::Bandwidth, Transport::Verbs, 65536, 12.0);
    slow.counters = BTreeMap::from([
        ("mlx5_0 port 1 port_transmit_bytes_total".to_owned(), 9),
        ("mlx5_0 port 1 packet_sequence_errors_total".to_owned(), 7),
    ]);
    assert_eq!(retransmissions(&slow), Some(7));
    let verdict = evaluate(&[slow], &ends, Some(&ends));
    assert!(verdict.summary.contains("12 % of the"), "{}", verdict.summary);
    assert!(text(&verdict).contains("increased by 7"), "{verdict:?}");
}

#[test]
fn small_messages_and_low_depth_are_bottlenecks() {
    let ends = facts(port("mlx5_0 port 1", 100_000, 126.0));
    let small = [point(Test::Bandwidth, Transport::Verbs, 64, 2.0)];
    assert!(text(&evaluate(&small, &ends, Some(&ends))).contains("messages are small"));
    let mut shallow = point(Test::Bandwidth, Transport::Verbs, 8192, 20.0);
    shallow.depth = 1;
    assert!(text(&evaluate(&[shallow], &ends, Some(&ends))).contains("too few bytes in flight"));
}

#[test]
fn on_the_same_host_there_is_no_expected_bandwidth() {
    let run = [point(Test::Bandwidth, Transport::Shm, 65536, 50.0)];
    let verdict = evaluate(&run, &HostFacts::default(), None);
    assert_eq!((verdict.ratio, verdict.expected_gbps), (None, None));
    assert!(text(&verdict).contains("no link rate to compare with"), "{verdict:?}");
    let mut loopback = point(Test::Bandwidth, Transport::Tcp, 65536, 20.0);
    loopback.rails[0].peer = "127.0.0.1:50052".to_owned();
    let verdict = evaluate(&[loopback], &HostFacts::default(), None);
    assert_eq!(verdict.ratio, None);
    assert!(text(&verdict).contains("one thread transfers all data"), "{verdict:?}");
}

#[test]
fn the_net_devices_of_both_ends_limit_tcp() {
    let netdev = |ip: &str, mbps| NetdevFacts {
        name: "eth0".to_owned(),
        ips: vec![(ip.parse().expect("an address"), 24)],
        mbps: Some(mbps),
        mtu: Some(1500),
    };
    let local = HostFacts { netdevs: vec![netdev("10.0.0.1", 25_000)], ..HostFacts::default() };
    let peer = HostFacts { netdevs: vec![netdev("10.0.0.2", 10_000)], ..HostFacts::default() };
    let mut run = point(Test::Bandwidth, Transport::Tcp, 65536, 9.4);
    run.rails[0].peer = "10.0.0.2:50052".to_owned();
    let verdict = evaluate(&[run], &local, Some(&peer));
    assert!((9.4..9.5).contains(&verdict.expected_gbps.expect("a bound")), "{verdict:?}");
}

#[test]
fn missed_targets_are_notes() {
    let mut ends = facts(port("mlx5_0 port 1", 100_000, 126.0));
    let good = point(Test::Latency, Transport::Verbs, 8, 1.0);
    let good_verdict = evaluate(std::slice::from_ref(&good), &ends, Some(&ends));
    assert!(good_verdict.notes.is_empty(), "{good_verdict:?}");
    let mut slow = good;
    if let Some(latency) = &mut slow.latency {
        (latency.p50_ns, latency.p99_ns, latency.jitter_ns) = (20_000, 25_000, 5000);
    }
    slow.loss_ratio = Some(0.01);
    let run = [slow];
    let notes = text(&evaluate(&run, &ends, Some(&ends)));
    for target in ["10 µs", "1 µs", "0.01 %"] {
        assert!(notes.contains(target), "{target}: {notes}");
    }
    ends.ports[0].is_software = true;
    assert!(text(&evaluate(&run, &ends, Some(&ends))).contains("soft-RoCE"));
}
