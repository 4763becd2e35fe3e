//! The client's examples, run against a store.

use fabric::link::{self, Transport};

use crate::test_server::{TestServer, over, settings};

#[path = "../../../kv-client/examples/async.rs"]
#[allow(dead_code, reason = "its main is for `cargo run`")]
mod asynchronous;
#[path = "../../../kv-client/examples/sync.rs"]
#[allow(dead_code, reason = "its main is for `cargo run`")]
mod sync;

fn store() -> (TestServer, String) {
    let test_server = TestServer::open(&settings(64 << 20), link::EndpointSettings::default());
    let server = format!("localhost:{}", test_server.address.port());
    (test_server, server)
}

/// Both examples delete what they have stored.
fn assert_empty(test_server: &TestServer) {
    let mut client = test_server.client(over(Transport::Tcp));
    assert!(client.get(b"example/greeting").unwrap().is_none());
    assert_eq!(test_server.engine.index.usage().keys, 0);
}

#[test]
fn the_sync_example_runs() {
    let (test_server, server) = store();
    sync::run(&server).unwrap();
    assert_empty(&test_server);
}

#[test]
fn the_async_example_runs() {
    let (test_server, server) = store();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(asynchronous::run(&server)).unwrap();
    assert_empty(&test_server);
}

#[test]
fn an_example_without_a_store_ends_with_the_cause() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = sync::run(&unused.to_string()).unwrap_err();
    let cause = std::error::Error::source(&error).expect("a cause");
    assert!(cause.is::<fabric::Error>() && format!("{error:#}").contains(&cause.to_string()));
}
