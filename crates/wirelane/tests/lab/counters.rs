//! Counters compared with the bytes sent.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::prometheus::{Prometheus, Target};
use crate::{Server, one_device, packets_sent, run, text, write_bandwidth};

/// A sample of a scrape, by its name with all labels.
fn sample(scrape: &str, series: &str) -> u64 {
    let value = scrape.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("no {series} in {scrape}"));
    value.parse().unwrap_or_else(|_| panic!("{series} is {value}"))
}

/// Waits until a server that was just started answers.
fn wait_for(url: &str) {
    let limit = Instant::now() + Duration::from_secs(120);
    while !run("curl", &["-sSf", "--max-time", "20", url]).status.success() {
        assert!(Instant::now() < limit, "{url} does not answer");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A store on one end of a wire, used from the other end over verbs or libfabric.
struct Store {
    _server: Server,
    config: String,
    transport: &'static str,
}

impl Store {
    fn start(transport: &'static str) -> Store {
        let far = one_device("rxe1");
        let address = ["--listen", "127.0.0.1:50078", "--http", "127.0.0.1:8078"];
        let serve = Command::new(env!("CARGO_BIN_EXE_wirelane"))
            .args(["serve", "--memory", "64MiB", "--config", &far, "--transport", transport])
            .args(address)
            .spawn();
        let store = Store {
            _server: Server(serve.expect("the server starts")),
            config: one_device("rxe0"),
            transport,
        };
        wait_for("http://127.0.0.1:8078/readyz");
        store
    }

    fn kv(&self, arguments: &[&str]) -> String {
        let way = ["kv", "--server", "127.0.0.1:50078", "--transport", self.transport, "--config"];
        let words = [&way, &[self.config.as_str()][..], arguments].concat();
        let output = run(env!("CARGO_BIN_EXE_wirelane"), &words);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn get(path: &str) -> String {
        let url = format!("http://127.0.0.1:8078{path}");
        text(&run("curl", &["-sSf", "--max-time", "20", &url]).stdout)
    }

    /// The value of one of its counters.
    fn count(&self, name: &str) -> u64 {
        let scrape = Self::get("/metrics");
        let bytes = |kind: &str| sample(&scrape, &format!("wirelane_rdma_{kind}_bytes_total"));
        let sent = sample(&scrape, "wirelane_rdma_transmit_payload_bytes_total");
        let received = sample(&scrape, "wirelane_rdma_receive_payload_bytes_total");
        assert_eq!(
            (sent, received),
            (bytes("send") + bytes("write"), bytes("recv") + bytes("read"))
        );
        bytes(name)
    }

    /// The growth of a counter with one call. A server updates it shortly after its answer.
    fn rises(&self, name: &str, arguments: &[&str], expected: Option<u64>) -> u64 {
        let before = self.count(name);
        self.kv(arguments);
        let limit = Instant::now() + Duration::from_secs(10);
        let settled = |rose: u64| expected.is_none_or(|expected| expected == rose);
        while !settled(self.count(name) - before) && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(100));
        }
        self.count(name) - before
    }
}

#[test]
fn bytes_over_verbs_are_counted_exactly() {
    count_exactly(&Store::start("verbs"));
}

/// The same over libfabric: a value is written directly to the client's memory, and read directly from it.
#[test]
fn bytes_over_libfabric_are_counted_exactly() {
    let before = [packets_sent("rxe0"), packets_sent("rxe1")];
    let store = Store::start("ofi");
    count_exactly(&store);
    let bench =
        store.kv(&["bench", "--ops", "100", "--keys", "20", "--value-size", "65536", "--json"]);
    let bench: Value = serde_json::from_str(&bench).expect("JSON");
    assert_eq!((&bench["transport"], &bench["errors"]), (&"ofi".into(), &0.into()), "{bench}");
    let sent = [packets_sent("rxe0") - before[0], packets_sent("rxe1") - before[1]];
    // Puts come from one device, gets from the other, in packets of at most 4 KiB.
    assert!(sent.iter().all(|packets| *packets > 1024), "{sent:?}");
    let status: Value = serde_json::from_str(&Store::get(STATUS)).expect("JSON");
    let offers = status["transports"].as_array().expect("a list");
    let offer = offers.iter().find(|offer| offer["name"] == "ofi").expect("libfabric");
    let why = offer["why"].as_str().expect("a reason");
    assert!(offer["offered"] == true && why.contains("verbs;ofi_rxm"), "{offer}");
    let rail = status["links"][0]["rails"][0]["name"].as_str().expect("a rail");
    assert!(rail.starts_with("verbs;ofi_rxm rxe1 "), "{rail}");
}

const STATUS: &str = "/api/v1/transport/status";

fn count_exactly(store: &Store) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |length: usize| {
        let path = folder.path().join(length.to_string());
        std::fs::write(&path, vec![7; length]).expect("a file");
        path.to_str().expect("a plain path").to_owned()
    };
    const SMALL: usize = 1 << 20;
    const LARGE: usize = (3 << 20) + 12_345;
    // A short value is in a message, so these are the bytes of the rail's probe.
    let rail_test = store.rises("read", &["put", "short", "hello"], None);
    assert_eq!(rail_test, 16 << 10, "one rail, tested by one read");
    for (key, length) in [("small", SMALL), ("large", LARGE)] {
        let expected = length as u64 + rail_test;
        let rose = store.rises("read", &["put", key, "-f", &file(length)], Some(expected));
        assert_eq!(rose, expected, "a put of {length} bytes is read by the store");
    }
    let got = |key: &str, expected| {
        let landed = folder.path().join("landed");
        let landed = landed.to_str().expect("a plain path");
        store.rises("write", &["get", key, "-o", landed], expected)
    };
    let small = got("small", None);
    let around = small.checked_sub(SMALL as u64).expect("all of it is written");
    assert!(around < 20_000, "a test of 16 KiB and an answer, not {around} bytes");
    let expected = LARGE as u64 + around;
    assert_eq!(got("large", Some(expected)), expected, "the same around it, and every byte of it");
}

const TRANSMITTED: &str = "rdma_port_transmit_packets_total{device=\"rxe0\",port=\"1\"}";

#[test]
fn packets_of_perftest_are_in_the_exporters_metrics() {
    let transmitted = || {
        let output = run(env!("CARGO_BIN_EXE_wirelane"), &["exporter", "--once"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        sample(&text(&output.stdout), TRANSMITTED)
    };
    let before = transmitted();
    let (client, server, printed) = write_bandwidth();
    assert_eq!((client, server), (Some(0), Some(0)), "{printed}");
    let after = transmitted();
    // 100 writes of 64 KiB, in packets of at most 4 KiB.
    assert!(after - before >= 100 * 16, "{before} before and {after} after");
    assert_eq!(after, packets_sent("rxe0"), "as the driver counts them");
}

#[test]
fn a_prometheus_scrapes_this_machine_and_sees_perftest() {
    let folder = tempfile::tempdir().expect("a folder");
    let listen = ["exporter", "--listen", "127.0.0.1:9878"];
    let exporter =
        Command::new(env!("CARGO_BIN_EXE_wirelane")).args(listen).stderr(Stdio::null()).spawn();
    let _exporter = Server(exporter.expect("the exporter starts"));
    wait_for("http://127.0.0.1:9878/metrics");
    let rules = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/prometheus/rules/wirelane.rules.yml");
    let target = Target {
        job: "wirelane-exporter",
        instance: "lab".to_owned(),
        address: "127.0.0.1:9878".to_owned(),
    };
    // Not more often: the machine may be emulated, and perftest needs its share of the CPU.
    let prometheus = Prometheus::start(folder.path(), &rules, &[target], 5);
    let (client, server, printed) = write_bandwidth();
    assert_eq!((client, server), (Some(0), Some(0)), "{printed}");
    let rises = "increase(rdma_port_transmit_packets_total{device=\"rxe0\"}[2m]) > 0";
    let limit = Instant::now() + Duration::from_secs(60);
    assert_eq!(prometheus.finds(rises, limit), Ok(true), "{rises}");
    let rules = prometheus.rules();
    assert!(rules.iter().any(|rule| rule.is_alert), "alerts are watched for");
    for rule in &rules {
        assert_eq!(rule.error, None, "{}: {}", rule.name, rule.query);
    }
    assert_eq!(prometheus.broken_words(), [""; 0]);
}
