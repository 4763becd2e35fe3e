//! A store and its client over soft-RoCE queue pairs, while wires are cut. Runs in the lab.
#![allow(missing_docs, reason = "a test")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fabric::Pages;
use fabric::link::{self, Endpoint, Transport};
use fabric::verbs::SrqConfig;
use kv_client::{Client, PutOptions};
use kv_server::{Engine, Settings, WorkerPool};
use kv_store::WhenFull;

/// Two rails: rxe0 to rxe1, and rxe2 to rxe3. No shared memory.
fn links(devices: [&str; 2]) -> link::EndpointSettings {
    let mut settings = link::EndpointSettings {
        transports: vec![Transport::Verbs, Transport::Tcp],
        devices: devices.map(str::to_owned).to_vec(),
        ..link::EndpointSettings::default()
    };
    settings.link.retry_delay = Duration::from_secs(1);
    settings
}

#[test]
fn values_are_transferred_over_verbs_then_tcp_then_verbs() {
    let engine = Engine::new(&Settings {
        memory: 64 << 20,
        pages: Pages::Plain,
        when_full: WhenFull::Evict,
        max_value: None,
        max_in_flight: None,
        idle_timeout: Duration::from_secs(60),
        data_dir: None,
    })
    .unwrap();
    let mut shared = links(["rxe1", "rxe3"]);
    shared.verbs.srq = Some(SrqConfig { memory: 1 << 20, ..SrqConfig::default() });
    let endpoint = Endpoint::new(shared).unwrap();
    let workers = WorkerPool::start(&engine, &endpoint, 1).unwrap();
    let listener = endpoint.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let listener = std::thread::spawn(move || {
        while !stopped.load(Ordering::SeqCst) {
            if let Some(Ok(link)) = listener.accept(Duration::from_millis(50)) {
                workers.serve(link);
            }
        }
        workers.stop(Duration::from_secs(20))
    });
    let mut settings = kv_client::Settings::new(address);
    settings.link = links(["rxe0", "rxe2"]);
    settings.timeout = Duration::from_secs(120);
    settings.client_buffer_bytes = 8 << 20;
    let mut client = Client::connect(settings).unwrap();
    // A link starts with the lane that is up first.
    until_over_verbs(&mut client);

    // The devices' counters prove that RDMA was used.
    let before = packets();
    exercise(&mut client, 0);
    let sent = packets() - before;
    assert!(sent > 2 * 300_000 / 4096, "{sent} packets sent by the devices");

    wire(&["cut", "0"]);
    exercise(&mut client, 1);
    wire(&["cut", "1"]);
    exercise(&mut client, 2);
    assert_eq!(client.link_status().unwrap().transport, Some("tcp"));
    wire(&["repair", "0"]);
    wire(&["repair", "1"]);
    until_over_verbs(&mut client);
    exercise(&mut client, 4);
    drop(client);
    stop.store(true, Ordering::SeqCst);
    assert!(listener.join().unwrap(), "the workers did not end");
    let usage = engine.index.usage();
    assert_eq!((usage.pins, usage.reserved_bytes), (0, 0), "{usage:?}");
}

fn until_over_verbs(client: &mut Client) {
    let started = Instant::now();
    while client.link_status().unwrap().transport != Some("verbs") {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "over verbs: {:?}",
            client.link_status()
        );
        exercise(client, 3);
    }
}

fn exercise(client: &mut Client, round: u8) {
    for (at, length) in [0, 100, 5000, 300_000].into_iter().enumerate() {
        let key = [round, at as u8];
        let value: Vec<u8> = (0..length).map(|at| (at % 253) as u8 ^ round).collect();
        client.put(&key, &value, &PutOptions::default()).unwrap();
        let got = client.get(&key).unwrap().unwrap();
        assert!(got.to_vec() == value, "{length} bytes in round {round}");
    }
}

/// The packets sent by all devices.
fn packets() -> u64 {
    let sent = |device: &str| {
        let file = format!("/sys/class/infiniband/{device}/ports/1/hw_counters/sent_pkts");
        std::fs::read_to_string(file).expect("a counter").trim().parse::<u64>().expect("a number")
    };
    ["rxe0", "rxe1", "rxe2", "rxe3"].map(sent).into_iter().sum()
}

fn wire(arguments: &[&str]) {
    let status = Command::new("wire").args(arguments).status().expect("the lab's program");
    assert!(status.success(), "wire {arguments:?}");
}
