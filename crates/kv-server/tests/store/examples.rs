//! The client's examples, run against a store.

use fabric::link::{self, Class};

use crate::test_server::{Place, by, settings};

#[path = "../../../kv-client/examples/async.rs"]
#[allow(dead_code, reason = "its main is for `cargo run`")]
mod awaited;
#[path = "../../../kv-client/examples/sync.rs"]
#[allow(dead_code, reason = "its main is for `cargo run`")]
mod sync;

fn store() -> (Place, String) {
    let place = Place::open(&settings(64 << 20), link::Settings::default());
    let server = format!("localhost:{}", place.address.port());
    (place, server)
}

/// Both delete what they have stored.
fn is_empty(place: &Place) {
    let mut client = place.client(by(Class::Tcp));
    assert!(client.get(b"example/greeting").unwrap().is_none());
    assert_eq!(place.engine.store.usage().keys, 0);
}

#[test]
fn the_sync_example_runs() {
    let (place, server) = store();
    sync::run(&server).unwrap();
    is_empty(&place);
}

#[test]
fn the_async_example_runs() {
    let (place, server) = store();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(awaited::run(&server)).unwrap();
    is_empty(&place);
}

#[test]
fn an_example_without_a_store_ends_with_the_cause() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = sync::run(&unused.to_string()).unwrap_err();
    let cause = std::error::Error::source(&error).expect("a cause");
    assert!(cause.is::<fabric::Error>() && format!("{error:#}").contains(&cause.to_string()));
}
