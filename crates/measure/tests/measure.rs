//! Two ends in one process: every test and operation over the lanes that every machine has.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fabric::session::{Credentials, Key, Keyring};
use fabric::verbs::{self, DeviceRequest};
use fabric::{ofi, tcp};
use measure::{Client, Error, Kind, Observer, Server, ServerSettings, Transports};
use report::{Limit, Operation, Outcome, Plan, Test, Transport};

fn ways() -> Transports {
    Transports {
        library: verbs::LIBRARY.into(),
        wish: DeviceRequest { device: None, port: None, gid_index: None, mtu: 4096 },
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
        ways: ways(),
        has_rdma: false,
        about: serde_json::json!({ "host": "here" }),
        facts: Arc::new(|_| BTreeMap::new()),
        onward: Arc::new(|_| Credentials::None),
    }
}

/// A server for the length of a test.
struct Running {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start(settings: ServerSettings) -> Running {
        let server = Server::open(settings).expect("it listens");
        let (address, over) = (server.address(), Arc::new(AtomicBool::new(false)));
        let end = over.clone();
        let told: Observer = Arc::new(|_, _, _| ());
        let serve = move || {
            measure::serve(&server, &told, || !end.load(Ordering::Relaxed)).expect("serves")
        };
        Running { address, over, thread: Some(std::thread::spawn(serve)) }
    }

    fn open() -> Running {
        Running::start(settings(Keyring::new(), false))
    }

    fn client(&self, credentials: &Credentials) -> Result<Client, Error> {
        let facts = Arc::new(|_: &[String]| BTreeMap::new());
        Client::connect(self.address, credentials, ways(), facts, Duration::from_secs(10))
    }

    fn measure(&self, plan: &Plan) -> Result<Outcome, Error> {
        self.client(&Credentials::None)?.measure(plan, &mut |_| ())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
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
    let server = Running::open();
    let mut client = server.client(&Credentials::None).expect("it is let in");
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
fn by_time_with_several_lanes_and_both_ways() {
    let server = Running::open();
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
fn what_cannot_be_done_is_said_in_a_line() {
    let server = Running::open();
    let kind = |plan: Plan| {
        let error = server.measure(&plan).expect_err("it is refused");
        assert!(!error.to_string().contains('\n'), "{error}");
        error.kind
    };
    let good = plan(Test::Bandwidth, Operation::Write, Transport::Tcp, 64);
    assert_eq!(kind(Plan { size: 0, ..good.clone() }), Kind::Misuse);
    assert_eq!(kind(Plan { size: 1 << 30, ..good.clone() }), Kind::Refused);
    assert_eq!(kind(Plan { datagrams: true, ..good.clone() }), Kind::Misuse);
    // There is no RDMA device with such a name anywhere.
    let nowhere =
        Plan { transport: Transport::Verbs, device: Some("nobody0".to_owned()), ..good.clone() };
    assert_eq!(kind(nowhere), Kind::Refused);
    server.measure(&good).expect("others go on");
}

#[test]
fn who_is_not_known_is_not_let_in() {
    let key = |digits: &str| Key::from_hex("bench", &digits.repeat(64)).expect("a key");
    let keyring = Keyring::new();
    keyring.add(key("a")).expect("room for it");
    let server = Running::start(settings(keyring, true));
    assert!(server.client(&Credentials::None).is_err());
    assert!(server.client(&Credentials::Key(key("b"))).is_err());
    let mut client = server.client(&Credentials::Key(key("a"))).expect("it is known");
    let plan = plan(Test::Latency, Operation::Write, Transport::Tcp, 64);
    client.measure(&plan, &mut |_| ()).expect("measured");
}

#[test]
fn a_server_measures_towards_a_third_end() {
    let (first, second) = (Running::open(), Running::open());
    let mut client = first.client(&Credentials::None).expect("it is let in");
    let plan = plan(Test::Bandwidth, Operation::Write, Transport::Tcp, 4096);
    let to = second.address.to_string();
    let outcome = client.relay(&to, &plan, false).expect("it is measured");
    assert_eq!((outcome.operations, outcome.plan.transport), (500, Transport::Tcp));
    let chosen = client.relay(&to, &plan, true).expect("it is measured");
    assert_eq!(chosen.plan.transport, Transport::Shm, "both are on this host");
    let refused = client.relay("127.0.0.1:1", &plan, false).expect_err("nobody is there");
    assert!(refused.to_string().contains("127.0.0.1:1"), "{refused}");
}

#[test]
fn several_measure_at_once_and_one_that_leaves_disturbs_nobody() {
    let server = Running::open();
    let long = Plan {
        limit: Limit::Milliseconds(300),
        ..plan(Test::Bandwidth, Operation::Write, Transport::Tcp, 4096)
    };
    std::thread::scope(|scope| {
        let measuring: Vec<_> = (0..3).map(|_| scope.spawn(|| server.measure(&long))).collect();
        // Goes in the middle of its measurement, with no word.
        let leaving = scope.spawn(|| {
            let mut client = server.client(&Credentials::None).expect("it is let in");
            let leave = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                client.measure(&long, &mut |_| std::panic::panic_any("enough"))
            }));
            assert!(leave.is_err(), "it has left");
        });
        for outcome in measuring {
            outcome.join().expect("no panic").expect("measured");
        }
        let _ = leaving.join();
    });
    server.measure(&long).expect("and so does the next");
}

#[test]
fn a_server_that_is_gone_is_an_error_soon() {
    let address = {
        let server = Running::open();
        server.address
    };
    let facts = Arc::new(|_: &[String]| BTreeMap::new());
    let gone = Client::connect(address, &Credentials::None, ways(), facts, Duration::from_secs(2));
    assert_eq!(gone.err().map(|error| error.kind), Some(Kind::Gone));
}
