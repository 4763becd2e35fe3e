//! The quota of bytes in flight: a client that exceeds it must retry, and loses nothing.

use std::time::Duration;

use fabric::link::Transport;
use kv_client::{ErrorKind, PutOptions, Resource, Settings};

use crate::stamped_values::{value, verify};
use crate::test_server::{TestServer, over, settings, until};

#[test]
fn a_client_above_its_quota_does_not_block_others() {
    for transport in [Transport::Shm, Transport::Tcp] {
        let mut settings = settings(64 << 20);
        settings.max_in_flight = Some(8 << 20);
        let server = TestServer::open(&settings, over(transport));
        let mut greedy = Settings::new(server.address);
        (greedy.link, greedy.timeout) = (over(transport), Duration::from_millis(300));
        let mut greedy = kv_client::Client::connect(greedy).unwrap();
        let options = PutOptions::default();
        // Left open: the store keeps it for a while.
        std::mem::forget(greedy.create(b"one", 3 << 20, &options).unwrap());
        let error = greedy.create(b"two", 2 << 20, &options).expect_err("more than half of 8 MiB");
        assert_eq!(error.kind(), ErrorKind::Overloaded, "{error}");
        assert_eq!(error.resource(), Some(Resource::StoreInFlight), "{error}");
        greedy.put(b"short", &[1; 300], &options).unwrap();
        let mut other = server.client(over(transport));
        other.put(b"three", &value(3, 1, 4 << 20), &options).unwrap();
        assert_eq!(server.engine.quota().used(), 3 << 20);
        assert!(server.engine.quota().refused() > 0);
        drop((greedy, other));
        until("everything is released", || {
            server.engine.quota().used() == 0 && server.engine.index.usage().reserved_bytes == 0
        });
    }
}

/// Concurrent clients exceed the quota together: all values are stored after retries.
#[test]
fn writes_above_the_quota_are_retried() {
    let mut settings = settings(128 << 20);
    settings.max_in_flight = Some(2 << 20);
    let server = TestServer::open(&settings, over(Transport::Tcp));
    std::thread::scope(|scope| {
        for number in 0..6_u64 {
            let mut client = server.client(over(Transport::Tcp));
            scope.spawn(move || {
                for round in 0..8 {
                    let name = number * 100 + round;
                    let key = name.to_le_bytes();
                    let bytes = value(name, 1, 1 << 20);
                    client.put(&key, &bytes, &PutOptions::default()).unwrap();
                    let got = client.get(&key).unwrap().unwrap();
                    verify(name, &got.to_vec()).unwrap();
                }
            });
        }
    });
    assert_eq!(server.engine.index.usage().keys, 48);
    assert_eq!(server.engine.quota().used(), 0);
}
