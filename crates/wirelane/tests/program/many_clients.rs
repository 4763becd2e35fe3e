//! A thousand concurrent clients, over shared memory and TCP: all are served, and no resources are left.

use std::sync::Barrier;
use std::time::Instant;

use fabric::link::Transport;
use kv_client::{Client, PutOptions, Settings};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::exposition::Scrape;
use super::lifecycle::until;
use super::*;

const THREADS: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(600);

/// Message buffers are kept for the next clients, sixteen per descriptor.
const KEPT: f64 = 120.0;

/// A thousand, but for `cargo xtask test --quick`.
fn clients() -> usize {
    let number = std::env::var("WIRELANE_TEST_CLIENTS").ok();
    number.map_or(1000, |number| number.parse().expect("a number"))
}

/// Each client needs about ten descriptors in this process too.
fn raise_descriptors(clients: usize) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("our own limit");
    let needed = 14 * clients as u64;
    assert!(
        maximum.is_none_or(|most| most >= needed),
        "{maximum:?} descriptors are too few for {clients} clients: this test wants `ulimit -Hn {needed}`"
    );
}

fn connect(server: &str, number: usize) -> Client {
    let mut settings = Settings::new(server);
    settings.client_buffer_bytes = 1 << 20;
    // On a loaded machine a client may wait long.
    (settings.timeout, settings.link.link.peer_timeout) = (TIMEOUT, TIMEOUT);
    settings.link.transports =
        vec![if number.is_multiple_of(2) { Transport::Shm } else { Transport::Tcp }];
    settings.link.library = "/nowhere/libibverbs.so.1".into();
    Client::connect(settings).unwrap_or_else(|error| panic!("client {number}: {error}"))
}

/// A few writes and reads, short and long.
fn work(client: &mut Client, number: usize) {
    for (round, length) in [64, 20_000].into_iter().enumerate() {
        let key = format!("{number}/{round}").into_bytes();
        let value: Vec<u8> = (0..length).map(|at| (at + number * 7 + round) as u8).collect();
        client.put(&key, &value, &PutOptions::default()).expect("it is stored");
        assert_eq!(client.get(&key).expect("an answer").expect("a value").to_vec(), value);
    }
}

#[test]
fn a_thousand_clients_are_served_at_once() {
    let count = clients();
    raise_descriptors(count);
    // Its log is not read.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("settings.yaml");
    let timeout_ms = TIMEOUT.as_millis();
    std::fs::write(&file, format!("transport:\n  peer_timeout_ms: {timeout_ms}\n"))
        .expect("a file");
    let quiet = ["--log-level", "warn", "--config", file.to_str().expect("a plain path")];
    let more = [&quiet[..], &["--memory", "256MiB", "--when-full", "refuse"]].concat();
    let server = Server::start(&more);
    let scrape = || Scrape::read(&server.get("/metrics"));
    let before = scrape();
    let begun = Instant::now();
    let all = Barrier::new(THREADS + 1);
    let links = &server.links;
    let during = std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let all = &all;
            scope.spawn(move || {
                let numbers: Vec<usize> = (thread..count).step_by(THREADS).collect();
                let mut clients: Vec<Client> =
                    numbers.iter().map(|number| connect(links, *number)).collect();
                all.wait();
                for (client, number) in clients.iter_mut().zip(&numbers) {
                    work(client, *number);
                }
                // No client leaves before all were served.
                all.wait();
                all.wait();
            });
        }
        all.wait();
        eprintln!("connected after {:?}", begun.elapsed());
        all.wait();
        eprintln!("served after {:?}", begun.elapsed());
        let during = scrape();
        all.wait();
        during
    });
    eprintln!("gone after {:?}", begun.elapsed());
    assert_eq!(during.value("wirelane_store_clients"), count as f64);
    assert_eq!(during.value("wirelane_store_keys"), 2.0 * count as f64);
    for what in ["process_resident_memory_bytes", "process_open_fds", "process_threads"] {
        let name = format!("wirelane_{what}");
        eprintln!("{what}: {} before, {} with all", before.value(&name), during.value(&name));
    }
    assert!(
        during.value("wirelane_process_threads") < before.value("wirelane_process_threads") + 50.0,
        "no thread is a client's own"
    );
    until("everything is back", || {
        let now = scrape();
        let held = ["store_clients", "store_pins", "pool_reserved_bytes", "store_in_flight_bytes"];
        held.iter().all(|name| now.value(&format!("wirelane_{name}")) == 0.0)
            && now.value("wirelane_process_open_fds")
                <= before.value("wirelane_process_open_fds") + KEPT
    });
    let after = scrape();
    for what in ["process_resident_memory_bytes", "process_open_fds", "process_threads"] {
        eprintln!("{what}: {} after", after.value(&format!("wirelane_{what}")));
    }
    server.signal("-TERM");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn clients_that_end_normally_are_no_failures_of_rails() {
    let server = Server::start(&["--memory", "64MiB"]);
    let event = |name: &str| {
        let series = format!("wirelane_link_events_total{{event=\"{name}\"}}");
        Scrape::read(&server.get("/metrics")).value(&series)
    };
    for transport in ["shm", "tcp"] {
        let to = ["kv", "--server", &server.links, "--transport", transport];
        let bench = ["bench", "--clients", "32", "--ops", "8000", "--read-ratio", "0"];
        let output = run(&[&to[..], &bench, &["--value-size", "8", "--keys", "9"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    until("all links are closed", || event("closed") >= 64.0);
    assert_eq!((event("rail_down"), event("ended")), (0.0, 0.0));
}
