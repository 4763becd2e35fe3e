//! Sample documents of invented machines, one of every kind.
#![allow(dead_code, reason = "each test takes those that it needs")]

use std::collections::BTreeMap;

use report::{
    Bottleneck, Bound, Collective, CollectiveResult, CollectiveRow, Document, Expectation,
    FailedPair, Latency, Matrix, Operation, Outcome, Plan, Point, Rail, RunKind, SlowHost,
    SlowPair, Test, Transport, Verdict,
};

/// A document of every kind.
pub(crate) fn all() -> Vec<Document> {
    vec![bandwidth(1.0), latency(), compare(), mesh(), collective(), small()]
}

/// Writes over RDMA, from 64 bytes to 4 MiB. `speed` is 1 for a run without problems.
pub(crate) fn bandwidth(speed: f64) -> Document {
    let mut document = document(RunKind::Bw);
    let size = |power: u32| {
        let size = 1u64 << power;
        let gbps = speed * 97.2 * size as f64 / (size as f64 + 9000.0);
        point(Test::Bandwidth, Transport::Verbs, size, gbps, 4200 + size / 12)
    };
    document.points = (6..=22).map(size).collect();
    document.verdict = Some(verdict(speed));
    document
}

/// Writes of three sizes, one at a time.
pub(crate) fn latency() -> Document {
    let mut document = document(RunKind::Lat);
    let size = |size: u64| {
        point(Test::Latency, Transport::Verbs, size, size as f64 / 120.0, 880 + size / 12)
    };
    document.points = [8, 64, 512, 4096, 32768].map(size).to_vec();
    document
}

/// TCP and two RDMA ports at one size.
pub(crate) fn compare() -> Document {
    let mut document = document(RunKind::Compare);
    let mut second = point(Test::Bandwidth, Transport::Verbs, 1 << 20, 48.1, 9000);
    second.rails[0].local = "mlx5_1 port 1".to_owned();
    second.rails[0].peer = "mlx5_1 port 1".to_owned();
    let mut slow = second.clone();
    (slow.test, slow.size_bytes, slow.depth) = (Test::Latency, 8, 1);
    document.points = vec![
        point(Test::Bandwidth, Transport::Tcp, 1 << 20, 23.4, 61_000),
        point(Test::Bandwidth, Transport::Verbs, 1 << 20, 96.8, 8_000),
        second,
        point(Test::Latency, Transport::Tcp, 8, 0.1, 24_000),
        point(Test::Latency, Transport::Verbs, 8, 0.5, 910),
        slow,
    ];
    document.verdict = Some(Verdict {
        summary: "RDMA is 4.1 times as fast as TCP; mlx5_1 gives half of what mlx5_0 gives."
            .to_owned(),
        notes: vec!["latency over TCP is 24 µs: within the target of 1 ms".to_owned()],
        ..Verdict::default()
    });
    document
}

/// Six hosts, one of whose pairs is slow, and one of which failed.
pub(crate) fn mesh() -> Document {
    let mut document = document(RunKind::Mesh);
    let hosts: Vec<String> = (1..=6).map(|host| format!("gpu{host}")).collect();
    let measurement = |from: usize, to: usize| match (from.min(to), from.max(to)) {
        (from, to) if from == to => None,
        (1, 4) => Some(11.9),
        (2, 5) if from == 2 => None,
        _ => Some(95.0 + ((from * 7 + to * 3) % 11) as f64 * 0.31),
    };
    let row = |of: fn(f64) -> f64| {
        move |from: usize| (0..6).map(|to| measurement(from, to).map(of)).collect::<Vec<_>>()
    };
    document.peer = None;
    document.matrix = Some(Matrix {
        gbps: (0..6).map(row(|gbps| gbps)).collect(),
        latency_us: (0..6).map(row(|gbps| 92.0 / gbps)).collect(),
        median_gbps: Some(96.2),
        slow_pairs: vec![SlowPair {
            from: "gpu2".to_owned(),
            to: "gpu5".to_owned(),
            gbps: 11.9,
            ratio_to_median: 0.12,
        }],
        slow_hosts: Vec::<SlowHost>::new(),
        failed: vec![FailedPair {
            from: "gpu3".to_owned(),
            to: "gpu6".to_owned(),
            why: "connection refused: is `wirelane bench serve` running there?".to_owned(),
        }],
        hosts,
    });
    document.verdict = Some(Verdict {
        summary: "The link gpu2 – gpu5 gives 11.9 Gb/s, an eighth of what the others give."
            .to_owned(),
        ..Verdict::default()
    });
    document
}

/// An all-reduce over four GPUs of two hosts without GPUDirect.
pub(crate) fn collective() -> Document {
    let mut document = document(RunKind::Nccl);
    let row = |power: u32| {
        let size = 1u64 << power;
        let bus = 3.66 * size as f64 / (size as f64 + 860_000.0);
        let half = |factor: f64| CollectiveResult {
            time_us: size as f64 * 1.5 / bus / factor / 1e3,
            algorithm_gb_per_second: bus * factor / 1.5,
            bus_gb_per_second: bus * factor,
            wrong: Some(0),
        };
        CollectiveRow {
            size_bytes: size,
            count: Some(size / 4),
            datatype: Some("float".to_owned()),
            reduction: Some("sum".to_owned()),
            root: None,
            out_of_place: Some(half(1.0)),
            in_place: Some(half(0.97)),
        }
    };
    document.collective = Some(Collective {
        tool: "nccl-tests 2.19.6".to_owned(),
        operation: Some("all_reduce".to_owned()),
        ranks: Some(4),
        hosts: vec!["gpu1".to_owned(), "gpu2".to_owned()],
        rows: (20..=30).map(row).collect(),
        average_bus_gb_per_second: Some(3.27),
        wrong: Some(0),
        link_gbps: Some(40.0),
        efficiency: Some(0.73),
    });
    document.verdict = Some(Verdict {
        summary: "3.66 GB/s of the 5 GB/s that the link has: data goes through host memory."
            .to_owned(),
        bottlenecks: vec![Bottleneck {
            what: "no GPUDirect".to_owned(),
            evidence: "nvidia_peermem is not loaded, and the kernel has no dma-buf for these GPUs"
                .to_owned(),
            fix: Some("modprobe nvidia_peermem".to_owned()),
        }],
        ..Verdict::default()
    });
    document
}

/// One measurement over TCP, with no verdict.
pub(crate) fn small() -> Document {
    let mut document = document(RunKind::Rate);
    document.points = vec![point(Test::Rate, Transport::Tcp, 64, 0.3, 30_000)];
    document
}

/// A hostile document: every text in it is an attack.
pub(crate) fn hostile(attack: &str) -> Document {
    let mut text = serde_json::to_value(Document {
        matrix: mesh().matrix,
        collective: collective().collective,
        ..bandwidth(0.4)
    })
    .expect("JSON");
    let keep = ["format", "kind", "tool", "test", "operation", "transport"];
    poison(&mut text, attack, &keep);
    text["collective"]["operation"] = attack.into();
    text["collective"]["tool"] = attack.into();
    text["points"][0]["size_bytes"] = u64::MAX.into();
    text["points"][1]["gbps"] = 1e308.into();
    text["points"][2]["gbps"] = (-1e308).into();
    text["points"][3]["latency"]["count"] = u64::MAX.into();
    text["points"][3]["latency"]["buckets"] =
        serde_json::json!([[u64::MAX, u64::MAX], [1, u64::MAX], [0, 0]]);
    serde_json::from_value(text).expect("a document")
}

fn poison(value: &mut serde_json::Value, attack: &str, keep: &[&str]) {
    match value {
        serde_json::Value::String(text) => *text = attack.to_owned(),
        serde_json::Value::Array(list) => list.iter_mut().for_each(|one| poison(one, attack, keep)),
        serde_json::Value::Object(fields) => {
            let fields = fields.iter_mut().filter(|(name, _)| !keep.contains(&name.as_str()));
            fields.for_each(|(_, one)| poison(one, attack, keep));
        }
        _ => {}
    }
}

fn document(kind: RunKind) -> Document {
    let mut document = Document::new(kind, "2026-11-15T17:04:05Z".to_owned(), "gpu1".to_owned());
    document.peer = Some("gpu2".to_owned());
    document
}

fn point(test: Test, transport: Transport, size: u64, gbps: f64, median_ns: u64) -> Point {
    let seconds = 2.0;
    let bytes = (gbps * 1e9 / 8.0 * seconds) as u64;
    let (cpu, peer) = if transport == Transport::Tcp { (1.9, 1.7) } else { (1.1, 0.02) };
    let moved = |counter: &str, by: u64| (format!("mlx5_0 port 1 {counter}"), by);
    let counters = match transport {
        Transport::Verbs => [
            moved("port_xmit_data_bytes_total", bytes + bytes / 50),
            moved("out_of_sequence_total", 3),
        ]
        .into(),
        _ => BTreeMap::new(),
    };
    let outcome = Outcome {
        plan: Plan::new(test, Operation::Write, transport, size),
        rails: vec![rail(transport)],
        seconds,
        operations: bytes / size,
        bytes,
        latency: latencies(median_ns, (bytes / size).max(2)),
        cpu_seconds: cpu,
        peer_cpu_seconds: peer,
        lost: None,
        verified: Some(true),
        peer_counters: counters.clone(),
        counters,
    };
    let point = Point::new(&outcome, "gpu1", "gpu2", "both have RDMA ports that reach each other");
    Point { retransmissions: (transport == Transport::Verbs).then_some(0), ..point }
}

fn rail(transport: Transport) -> Rail {
    match transport {
        Transport::Verbs => Rail {
            local: "mlx5_0 port 1".to_owned(),
            peer: "mlx5_0 port 1".to_owned(),
            gid: Some("::ffff:10.0.0.1".to_owned()),
            mtu: Some(4096),
            rate_mbps: Some(100_000),
            why: "GID 3 is RoCE v2 and routable; same subnet".to_owned(),
        },
        _ => Rail {
            peer: "10.0.0.2:50052".to_owned(),
            why: "by the kernel".to_owned(),
            ..Rail::default()
        },
    }
}

/// Latencies with a realistic tail, in as many buckets as a histogram has: each part of the rest is a little slower, the last
/// ones much slower.
fn latencies(median: u64, count: u64) -> Latency {
    let mut buckets = Vec::new();
    let mut left = count;
    let mut took = median as f64 * 0.9;
    while left > 0 {
        let now = left.div_ceil(12);
        took *= if left > count / 200 { 1.005 } else { 1.035 };
        buckets.push((took as u64, now));
        left -= now;
    }
    let within = |ratio: f64| {
        let mut sum = 0;
        let over = |(_, many): &&(u64, u64)| {
            sum += many;
            sum as f64 >= ratio * count as f64
        };
        buckets.iter().find(over).or(buckets.last()).map_or(0, |(took, _)| *took)
    };
    Latency {
        count,
        min_ns: median * 9 / 10,
        p50_ns: within(0.5),
        p90_ns: within(0.9),
        p99_ns: within(0.99),
        p99_9_ns: within(0.999),
        max_ns: buckets.last().map_or(0, |(took, _)| *took),
        mean_ns: median as f64 * 1.03,
        stdev_ns: median as f64 * 0.08,
        buckets: buckets.clone(),
    }
}

fn verdict(speed: f64) -> Verdict {
    let bound = |what: &str, gbps: f64, evidence: &str| Bound {
        what: what.to_owned(),
        gbps,
        evidence: evidence.to_owned(),
    };
    let ratio = speed * 0.995;
    Verdict {
        summary: format!("{:.0} % of what this link should give.", ratio * 100.0),
        expected_gbps: Some(97.2),
        bounds: vec![
            bound("port", 97.2, "100 Gb/s, MTU 4096: 2.8 % are headers"),
            bound("PCIe", 112.6, "0000:81:00.0 is x16 at 8 GT/s"),
        ],
        reached_gbps: Some(97.2 * ratio),
        ratio: Some(ratio),
        bottlenecks: match ratio >= 0.9 {
            true => Vec::new(),
            false => vec![Bottleneck {
                what: "the PCIe slot".to_owned(),
                evidence: "x4 of x16 lanes are in use".to_owned(),
                fix: Some("reseat the card, or take another slot".to_owned()),
            }],
        },
        notes: vec!["jitter is 90 ns: within the target of 1 µs".to_owned()],
        expectation: Some(Expectation {
            expected: "90%".to_owned(),
            reached: format!("{:.0}%", ratio * 100.0),
            met: ratio >= 0.9,
        }),
    }
}
