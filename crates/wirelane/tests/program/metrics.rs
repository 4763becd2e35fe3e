//! `/metrics`, scraped as Prometheus does.

use super::exposition::Scrape;
use super::grpc::{client, put, runtime};
use super::*;

#[test]
fn a_scrape_has_metrics_of_store_links_listener_and_process() {
    let server = Server::start(&["--memory", "64MiB"]);
    let scrape = || Scrape::read(&server.get("/metrics"));
    let before = scrape();
    assert_eq!(before.value("wirelane_pool_bytes"), f64::from(64 << 20));
    assert_eq!(before.value("wirelane_store_keys"), 0.0);
    assert_eq!(before.value("wirelane_rdma_send_latency_ns_count"), 0.0);
    for name in [
        "rdma_transmit_payload_bytes_total",
        "rdma_receive_payload_bytes_total",
        "rdma_send_operations_total",
        "rdma_recv_operations_total",
        "rdma_write_operations_total",
        "rdma_read_operations_total",
        "rdma_send_errors_total",
        "rdma_recv_errors_total",
    ] {
        assert_eq!(before.value(&format!("wirelane_{name}")), 0.0, "there is no RDMA here");
    }
    assert!(before.value("wirelane_process_resident_memory_bytes") > 1e6);
    assert!(before.value("wirelane_process_open_fds") > 3.0);

    runtime().block_on(async {
        let mut client = client(&server).await;
        client.put(put("hello", "world")).await.expect("it is put");
        client.put(put("", "")).await.expect_err("a key has bytes");
    });
    let output = run(&["connect", &server.links, "--seconds", "0.1"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let after = scrape();
    assert_eq!(after.value("wirelane_store_keys"), 1.0);
    assert_eq!(after.value("wirelane_store_puts_total"), 1.0);
    assert_eq!(after.value("wirelane_store_written_bytes_total"), 5.0);
    assert_eq!(after.value("wirelane_grpc_calls_total{method=\"Put\"}"), 2.0);
    assert_eq!(after.value("wirelane_grpc_failures_total{code=\"INVALID_ARGUMENT\"}"), 1.0);
    assert_eq!(after.value("wirelane_listener_accepted_total"), 1.0);
    assert_eq!(after.value("wirelane_listener_other_protocol_total"), 1.0);
    assert_eq!(after.value("wirelane_link_events_total{event=\"rail_up\"}"), 1.0);
    for transport in ["shm", "verbs", "tcp"] {
        let series = format!("wirelane_links_below_best{{transport=\"{transport}\"}}");
        assert_eq!(after.value(&series), 0.0, "the link had all that was planned");
    }
    for (series, value) in before.counters() {
        assert!(after.value(series) >= value, "{series} went back");
    }
}

#[test]
fn every_save_is_in_the_histogram_and_buckets_are_cumulative() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&["--data-dir", folder.path().to_str().expect("a plain path")]);
    for value in ["one", "two", "three"] {
        assert_eq!(
            run(&["kv", "--server", &server.links, "put", "k", value]).status.code(),
            Some(0)
        );
    }
    let scrape = Scrape::read(&server.get("/metrics"));
    let saves = scrape.value("wirelane_disk_saves_total");
    assert!(saves >= 3.0, "{saves}");
    for end in ["count", "bucket{le=\"+Inf\"}", "bucket{le=\"17.179869183\"}"] {
        assert_eq!(
            scrape.value(&format!("wirelane_disk_save_duration_seconds_{end}")),
            saves,
            "{end}"
        );
    }
    let sum = scrape.value("wirelane_disk_save_duration_seconds_sum");
    assert!(sum > 0.0 && sum == scrape.value("wirelane_disk_save_seconds_total"), "{sum}");
    assert_eq!(
        scrape.value("wirelane_rdma_send_latency_seconds_count"),
        0.0,
        "there is no RDMA here"
    );
}

#[test]
fn the_metrics_prefix_can_be_set() {
    let server = Server::start(&["--metrics-prefix", "dwcp"]);
    let scrape = Scrape::read(&server.get("/metrics"));
    assert!(scrape.types.keys().all(|name| name.starts_with("dwcp_")), "{:?}", scrape.types);
    let url = format!("http://{}/metrics", server.address);
    let head = Command::new("curl").args(["-sSI", "--max-time", "10", &url]).output();
    let head = stdout(&head.expect("curl runs"));
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
}
