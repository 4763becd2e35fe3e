//! Two ends in one process: every test and operation over shared memory and TCP.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fabric::session::{Credentials, Key, Keyring};
use fabric::verbs::{self, DeviceRequest};
use fabric::{ofi, tcp};
use measure::{Client, Error, ErrorKind, Observer, Server, ServerSettings, Transports};
use report::{Limit, Operation, Outcome, Plan, Test, Transport};

fn transports() -> Transports {
    Transports {
        library: verbs::LIBRARY.into(),
        device_request: DeviceRequest { device: None, port: None, gid_index: None, mtu: 4096 },
        verbs: verbs::Config::default(),
        ofi_provider: None,
        ofi: ofi::Config::default(),
        tcp: tcp::Config::default(),
    }
}

fn settings(keyring: Keyring, require_authentication: bool) -> ServerSettings {
    ServerSettings {
        address: "127.0.0.1:0".parse().expect("an address"),
        keyring,
        require_authentication,
        max_clients: 8,
        max_memory: 64 << 20,
        transports: transports(),
        has_rdma: false,
        about: serde_json::json!({ "host": "here" }),
        read_counters: Arc::new(|_| BTreeMap::new()),
        relay_credentials: Arc::new(|_| Credentials::None),
    }
}

/// A server for the duration of a test.
struct RunningServer {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl RunningServer {
    fn start(settings: ServerSettings) -> RunningServer {
        let server = Server::open(settings).expect("a listening server");
        let (address, ended) = (server.address(), Arc::new(AtomicBool::new(false)));
        let end = ended.clone();
        let observer: Observer = Arc::new(|_, _, _| ());
        let serve = move || {
            measure::serve(&server, &observer, || !end.load(Ordering::Relaxed)).expect("serves")
        };
        RunningServer { address, ended, thread: Some(std::thread::spawn(serve)) }
    }

    fn open() -> RunningServer {
        RunningServer::start(settings(Keyring::new(), false))
    }

    fn client(&self, credentials: &Credentials) -> Result<Client, Error> {
        let read_counters = Arc::new(|_: &[String]| BTreeMap::new());
        Client::connect(
            self.address,
            credentials,
            transports(),
            read_counters,
            Duration::from_secs(10),
        )
    }

    fn measure(&self, plan: &Plan) -> Result<Outcome, Error> {
        self.client(&Credentials::None)?.measure(plan, &mut |_| ())
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ends");
        }
    }
}

fn plan(test: Test, operation: Operation, transport: Transport, size: u64) -> Plan {
    Plan {
        depth: if test == Test::Latency { 1 } else { 16 },
        limit: Limit::Count(500),
        warm_up: Limit::Count(20),
        verify: operation != Operation::Atomic && test != Test::Latency,
        ..Plan::new(test, operation, transport, size)
    }
}

#[test]
fn every_test_and_operation_over_shared_memory_and_tcp() {
    let server = RunningServer::open();
    let mut client = server.client(&Credentials::None).expect("a connection");
    assert!(client.is_same_host());
    assert_eq!(client.about()["host"], "here");
    for transport in [Transport::Shm, Transport::Tcp] {
        for operation in [Operation::Write, Operation::Read, Operation::Send, Operation::Atomic] {
            for test in [Test::Bandwidth, Test::Latency, Test::Rate] {
                let sizes: &[u64] =
                    if operation == Operation::Atomic { &[8] } else { &[9, 64, 70_000] };
                for size in sizes {
                    let plan = plan(test, operation, transport, *size);
                    let outcome = client
                        .measure(&plan, &mut |_| ())
                        .unwrap_or_else(|why| panic!("{plan:?}: {why}"));
                    assert_eq!((outcome.operations, outcome.latency.count), (500, 500), "{plan:?}");
                    assert_eq!(outcome.bytes, 500 * size);
                    assert_eq!(outcome.verified, plan.verify.then_some(true), "{plan:?}");
                    assert!(outcome.seconds > 0.0 && outcome.latency.p50_ns > 0, "{outcome:?}");
                }
            }
        }
    }
}

#[test]
fn time_limits_several_lanes_and_both_directions_work() {
    let server = RunningServer::open();
    for transport in [Transport::Shm, Transport::Tcp] {
        for (operation, both_ways) in
            [(Operation::Write, true), (Operation::Send, true), (Operation::Read, false)]
        {
            let plan = Plan {
                lanes: 3,
                both_ways,
                limit: Limit::Milliseconds(100),
                warm_up: Limit::Milliseconds(10),
                ..plan(Test::Bandwidth, operation, transport, 4096)
            };
            let outcome = server.measure(&plan).unwrap_or_else(|why| panic!("{plan:?}: {why}"));
            assert!(outcome.operations > 10 && outcome.seconds >= 0.09, "{outcome:?}");
        }
    }
}

#[test]
fn refused_plans_have_an_error_of_one_line() {
    let server = RunningServer::open();
    let kind = |plan: Plan| {
        let error = server.measure(&plan).expect_err("an invalid plan");
        assert!(!error.to_string().contains('\n'), "{error}");
        error.kind
    };
    let good = plan(Test::Bandwidth, Operation::Write, Transport::Tcp, 64);
    assert_eq!(kind(Plan { size: 0, ..good.clone() }), ErrorKind::Misuse);
    assert_eq!(kind(Plan { size: 1 << 30, ..good.clone() }), ErrorKind::Refused);
    assert_eq!(kind(Plan { datagrams: true, ..good.clone() }), ErrorKind::Misuse);
    // No host has an RDMA device with this name.
    let nowhere =
        Plan { transport: Transport::Verbs, device: Some("missing0".to_owned()), ..good.clone() };
    assert_eq!(kind(nowhere), ErrorKind::Refused);
    server.measure(&good).expect("the server still works");
}

#[test]
fn clients_without_a_valid_key_are_refused() {
    let key = |digits: &str| Key::from_hex("bench", &digits.repeat(64)).expect("a key");
    let keyring = Keyring::new();
    keyring.add(key("a")).expect("the keyring is not full");
    let server = RunningServer::start(settings(keyring, true));
    assert!(server.client(&Credentials::None).is_err());
    assert!(server.client(&Credentials::Key(key("b"))).is_err());
    let mut client = server.client(&Credentials::Key(key("a"))).expect("a valid key");
    let plan = plan(Test::Latency, Operation::Write, Transport::Tcp, 64);
    client.measure(&plan, &mut |_| ()).expect("measured");
}

#[test]
fn a_server_measures_to_a_third_end() {
    let (first, second) = (RunningServer::open(), RunningServer::open());
    let mut client = first.client(&Credentials::None).expect("a connection");
    let plan = plan(Test::Bandwidth, Operation::Write, Transport::Tcp, 4096);
    let to = second.address.to_string();
    let outcome = client.relay(&to, &plan, false).expect("a result");
    assert_eq!((outcome.operations, outcome.plan.transport), (500, Transport::Tcp));
    let chosen = client.relay(&to, &plan, true).expect("a result");
    assert_eq!(chosen.plan.transport, Transport::Shm, "both are on this host");
    let refused = client.relay("127.0.0.1:1", &plan, false).expect_err("no server there");
    assert!(refused.to_string().contains("127.0.0.1:1"), "{refused}");
}

#[test]
fn a_client_that_disconnects_does_not_disturb_others() {
    let server = RunningServer::open();
    let long = Plan {
        limit: Limit::Milliseconds(300),
        ..plan(Test::Bandwidth, Operation::Write, Transport::Tcp, 4096)
    };
    std::thread::scope(|scope| {
        let measuring: Vec<_> = (0..3).map(|_| scope.spawn(|| server.measure(&long))).collect();
        // Disconnects in the middle of its measurement.
        let leaving = scope.spawn(|| {
            let mut client = server.client(&Credentials::None).expect("a connection");
            let leave = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                client.measure(&long, &mut |_| std::panic::panic_any("enough"))
            }));
            assert!(leave.is_err(), "the measurement was not interrupted");
        });
        for outcome in measuring {
            outcome.join().expect("no panic").expect("measured");
        }
        let _ = leaving.join();
    });
    server.measure(&long).expect("the server still works");
}

#[test]
fn connecting_to_a_stopped_server_fails() {
    let address = {
        let server = RunningServer::open();
        server.address
    };
    let read_counters = Arc::new(|_: &[String]| BTreeMap::new());
    let gone = Client::connect(
        address,
        &Credentials::None,
        transports(),
        read_counters,
        Duration::from_secs(2),
    );
    assert_eq!(gone.err().map(|error| error.kind), Some(ErrorKind::Gone));
}
