//! The async client.

use std::time::{Duration, Instant};

use fabric::link::Transport;
use kv_client::{AsyncClient, Condition, Cursor, ErrorKind, PutOptions, Settings};

use crate::test_server::{TestServer, over, settings};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn calling(servers: &[&TestServer], transport: Transport) -> Settings {
    let mut settings = Settings::new(servers[0].address).with_link(over(transport));
    settings.servers = servers.iter().map(|server| server.address.into()).collect();
    settings
}

#[test]
fn get_returns_the_last_put_for_every_task() {
    for transport in [Transport::Shm, Transport::Tcp] {
        let server = TestServer::open(&settings(64 << 20), over(transport));
        runtime().block_on(async {
            let client = AsyncClient::connect(calling(&[&server], transport)).await.unwrap();
            assert_eq!(client.link_status().unwrap().transport, Some(transport.name()));
            let task = |number: usize| {
                let client = client.clone();
                tokio::spawn(async move {
                    let key = format!("key{number}").into_bytes();
                    assert!(client.get(&key).await.unwrap().is_none());
                    for length in [0, 1, 4096, 9000, 300_000] {
                        let value = vec![number as u8; length + number];
                        let stored = client.put(&key, value.clone(), &PutOptions::default()).await;
                        let stored = stored.unwrap();
                        let got = client.get_checked(&key).await.unwrap().unwrap();
                        assert_eq!(got.metadata().version, stored.version);
                        assert!(got.to_vec() == value);
                        assert_eq!(
                            client.stat(&key).await.unwrap().unwrap().length,
                            value.len() as u64
                        );
                    }
                })
            };
            for task in (0..20).map(task).collect::<Vec<_>>() {
                task.await.unwrap();
            }
            let keys: Vec<Vec<u8>> = (0..25).map(|n| format!("key{n}").into_bytes()).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let found = client.get_many(&keys).await.unwrap();
            assert_eq!(found.iter().flatten().count(), 20);
            assert!(found[3].as_ref().unwrap().to_vec() == vec![3; 300_003]);
            let mut listed = client.list(b"key", Cursor::START).await.unwrap();
            while let Some(next) = listed.next {
                let more = client.list(b"key", next).await.unwrap();
                listed.keys.extend(more.keys);
                listed.next = more.next;
            }
            assert_eq!(listed.keys.len(), 20);
            assert!(client.delete(b"key3", Condition::Always).await.unwrap().is_some());
            assert!(client.delete(b"key3", Condition::Always).await.unwrap().is_none());
            let long = vec![9; 30 << 20];
            client.put(b"long", long.clone(), &PutOptions::default()).await.unwrap();
            assert!(client.get(b"long").await.unwrap().unwrap().to_vec() == long);
            assert_eq!(client.get(b"").await.unwrap_err().kind(), ErrorKind::Misuse);
        });
    }
}

#[test]
fn requests_wait_while_the_client_buffer_is_full() {
    let server = TestServer::open(&settings(64 << 20), over(Transport::Shm));
    runtime().block_on(async {
        let small = calling(&[&server], Transport::Shm).with_client_buffer_bytes(1 << 20);
        let client = AsyncClient::connect(small).await.unwrap();
        client.put(b"k", vec![7; 200_000], &PutOptions::default()).await.unwrap();
        let mut held = Vec::new();
        let quick = client.with_timeout(Duration::from_millis(200));
        let full = loop {
            match quick.get(b"k").await {
                Ok(value) => held.push(value.unwrap()),
                Err(error) => break error,
            }
            assert!(held.len() < 10, "more values than fit into the client buffer");
        };
        assert_eq!(full.kind(), ErrorKind::TimedOut, "{full}");
        let ((), got) = tokio::join!(
            async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                held.clear();
            },
            client.get(b"k"),
        );
        assert!(got.unwrap().is_some());
    });
}

#[test]
fn failover_does_not_block_the_runtime() {
    let (first, second) = (
        TestServer::open(&settings(16 << 20), over(Transport::Tcp)),
        TestServer::open(&settings(16 << 20), over(Transport::Tcp)),
    );
    let calling = calling(&[&first, &second], Transport::Tcp);
    runtime().block_on(async {
        let client = AsyncClient::connect(calling).await.unwrap();
        client.put(b"k", b"first", &PutOptions::default()).await.unwrap();
        tokio::task::spawn_blocking(move || drop(first)).await.unwrap();
        // A request that was in flight may fail; later ones reach the second store.
        let started = Instant::now();
        let got = loop {
            match client.get(b"k").await {
                Ok(got) => break got,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
            assert!(started.elapsed() < Duration::from_secs(20));
        };
        assert!(got.is_none(), "the second store never had it");
        client.put(b"k", b"second", &PutOptions::default()).await.unwrap();
        tokio::task::spawn_blocking(move || drop(second)).await.unwrap();
        let ticks = tokio::spawn(async {
            let mut ticks = 0;
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                ticks += 1;
                if ticks == 20 {
                    return;
                }
            }
        });
        let quick = client.with_timeout(Duration::from_millis(100));
        let error = loop {
            match quick.stat(b"k").await {
                Err(error) if error.kind() == ErrorKind::TimedOut => break error,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
                Ok(_) => {}
            }
        };
        assert!(error.to_string().contains("no answer within 100ms"), "{error}");
        ticks.await.unwrap();
    });
}
