//! The published schema and the documents have the same fields.

use std::collections::BTreeMap;

use report::{
    Bottleneck, Bound, Collective, CollectiveResult, CollectiveRow, Document, Expectation,
    FailedPair, Latency, Matrix, Operation, Outcome, Plan, Point, Rail, RunKind, SlowHost,
    SlowPair, Test, Transport, Verdict,
};
use serde_json::{Value, json};

/// A document with a value in every field.
fn full() -> Document {
    let mut document =
        Document::new(RunKind::Mesh, "2026-01-01T00:00:00Z".to_owned(), "a".to_owned());
    document.peer = Some("b".to_owned());
    let point = Point::new(&outcome(), "a", "b", "both have RDMA");
    document.points = vec![Point { retransmissions: Some(3), ..point }];
    document.verdict = Some(verdict());
    document.matrix = Some(matrix());
    document.collective = Some(collective());
    document
}

fn outcome() -> Outcome {
    let rail = Rail {
        gid: Some("fe80::1".to_owned()),
        mtu: Some(4096),
        rate_mbps: Some(100_000),
        ..Rail::default()
    };
    let counters = BTreeMap::from([("mlx5_0 port 1 packet_sequence_errors_total".to_owned(), 3)]);
    let buckets = vec![(1000, 9), (2000, 1)];
    Outcome {
        plan: Plan::new(Test::Rate, Operation::Send, Transport::Verbs, 64),
        rails: vec![rail],
        seconds: 2.0,
        operations: 10,
        bytes: 640,
        latency: Latency { count: 10, p50_ns: 900, p99_ns: 1900, buckets, ..Latency::default() },
        cpu_seconds: 1.0,
        peer_cpu_seconds: 0.5,
        lost: Some(1),
        verified: Some(true),
        counters: counters.clone(),
        peer_counters: counters,
    }
}

fn verdict() -> Verdict {
    let bound = Bound { what: "port".to_owned(), gbps: 97.0, evidence: "100 Gb/s".to_owned() };
    let bottleneck = Bottleneck {
        what: "PCIe".to_owned(),
        evidence: "x4".to_owned(),
        fix: Some("seat it".to_owned()),
    };
    let expectation =
        Expectation { expected: "90%".to_owned(), reached: "95%".to_owned(), met: true };
    Verdict {
        summary: "all is well".to_owned(),
        expected_gbps: Some(97.0),
        bounds: vec![bound],
        reached_gbps: Some(92.0),
        ratio: Some(0.95),
        bottlenecks: vec![bottleneck],
        notes: vec!["a note".to_owned()],
        expectation: Some(expectation),
    }
}

fn matrix() -> Matrix {
    let (a, b) = ("a".to_owned(), "b".to_owned());
    Matrix {
        hosts: vec![a.clone(), b.clone()],
        gbps: vec![vec![None, Some(1.0)], vec![Some(1.0), None]],
        latency_us: vec![vec![None, Some(1.0)], vec![None, None]],
        median_gbps: Some(1.0),
        slow_pairs: vec![SlowPair {
            from: a.clone(),
            to: b.clone(),
            gbps: 0.5,
            ratio_to_median: 0.5,
        }],
        slow_hosts: vec![SlowHost { host: a.clone(), gbps: 0.5, ratio_to_median: 0.5 }],
        failed: vec![FailedPair { from: a, to: b, why: "refused".to_owned() }],
    }
}

fn collective() -> Collective {
    let half = CollectiveResult {
        time_us: 1.0,
        algorithm_gb_per_second: 1.0,
        bus_gb_per_second: 1.0,
        wrong: Some(0),
    };
    let row = CollectiveRow {
        size_bytes: 8,
        count: Some(2),
        datatype: Some("float".to_owned()),
        reduction: Some("sum".to_owned()),
        root: Some(0),
        out_of_place: Some(half),
        in_place: Some(half),
    };
    Collective {
        tool: "nccl-tests".to_owned(),
        operation: Some("all_reduce".to_owned()),
        ranks: Some(2),
        hosts: vec!["a".to_owned()],
        rows: vec![row],
        average_bus_gb_per_second: Some(1.0),
        wrong: Some(0),
        link_gbps: Some(40.0),
        efficiency: Some(0.7),
    }
}

/// A schema with its references resolved.
fn resolved<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let schema = match schema["anyOf"].get(0) {
        Some(first) => first,
        None => schema,
    };
    match schema["$ref"].as_str() {
        Some(reference) => root.pointer(&reference[1..]).expect("a definition"),
        None => schema,
    }
}

/// Fails if the two differ: a missing field, or a type that is not allowed.
fn compare(at: &str, value: &Value, schema: &Value, root: &Value) {
    let schema = resolved(schema, root);
    match value {
        Value::Object(fields) if schema.get("properties").is_some() => {
            let known = schema["properties"].as_object().expect("properties");
            let names = |fields: &serde_json::Map<String, Value>| {
                fields.keys().cloned().collect::<std::collections::BTreeSet<_>>()
            };
            assert_eq!(names(fields), names(known), "{at}");
            assert_eq!(schema["additionalProperties"], json!(false), "{at}");
            let required = schema["required"].as_array().expect("required fields");
            assert_eq!(required.len(), known.len(), "{at}: every field is always there");
            for (name, value) in fields {
                compare(&format!("{at}.{name}"), value, &known[name], root);
            }
        }
        Value::Object(fields) => {
            for value in fields.values() {
                compare(at, value, &schema["additionalProperties"], root);
            }
        }
        Value::Array(items) => {
            assert!(allows(schema, "array"), "{at}");
            for item in items {
                compare(&format!("{at}[]"), item, &schema["items"], root);
            }
        }
        Value::String(text) => {
            let is_listed = schema["enum"].as_array().is_none_or(|list| list.contains(value));
            assert!(schema["const"] == *value || allows(schema, "string"), "{at}: {text}");
            assert!(is_listed, "{at}: {text}");
        }
        Value::Bool(_) => assert!(allows(schema, "boolean"), "{at}"),
        Value::Number(number) if number.is_f64() => assert!(allows(schema, "number"), "{at}"),
        Value::Number(_) => {
            assert!(allows(schema, "integer") || allows(schema, "number"), "{at}")
        }
        Value::Null => assert!(allows(schema, "null"), "{at}"),
    }
}

fn allows(schema: &Value, kind: &str) -> bool {
    match &schema["type"] {
        Value::Array(kinds) => kinds.contains(&json!(kind)),
        one => one == &json!(kind),
    }
}

#[test]
fn the_schema_has_every_field_and_no_other() {
    let schema = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/bench.schema.json"
    ));
    let schema: Value = serde_json::from_str(&schema.expect("the schema")).expect("JSON");
    let document = full();
    let value = serde_json::to_value(&document).expect("JSON");
    compare("", &value, &schema, &schema);
    let back = Document::parse(&value.to_string());
    assert_eq!(back, Ok(document), "what is written can be read again");
}

#[test]
fn documents_with_earlier_names_can_be_read() {
    let document = full();
    let mut value = serde_json::to_value(&document).expect("JSON");
    rename(&mut value["points"][0]["latency"], "buckets", "steps");
    rename(&mut value["matrix"], "slow_pairs", "slow_links");
    assert_eq!(Document::parse(&value.to_string()), Ok(document));
}

fn rename(object: &mut Value, from: &str, to: &str) {
    let fields = object.as_object_mut().expect("an object");
    let value = fields.remove(from).expect("the field");
    fields.insert(to.to_owned(), value);
}

#[test]
fn measurements_follow_from_what_was_measured() {
    let point = Point::new(&outcome(), "a", "b", "");
    assert_eq!((point.bytes_per_second, point.messages_per_second), (Some(320.0), Some(5.0)));
    assert_eq!(point.loss_ratio, Some(0.1));
    assert_eq!(point.latency.map(|latency| latency.jitter_ns), Some(1000));
    let nothing = Outcome { seconds: 0.0, bytes: 0, latency: Latency::default(), ..outcome() };
    let point = Point::new(&nothing, "a", "b", "");
    assert_eq!((point.gbps, point.cpu_seconds_per_gb, point.latency), (None, None, None));
}
