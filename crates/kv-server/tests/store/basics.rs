//! Basic operations, over every lane.

use std::time::Duration;

use fabric::link::Transport;
use kv_client::{Condition, Cursor, ErrorKind, PutOptions};

use crate::test_server::{TestServer, over, settings, until};

fn each(test: impl Fn(Transport)) {
    for transport in [Transport::Shm, Transport::Tcp] {
        test(transport);
    }
}

#[test]
fn get_returns_the_last_put() {
    each(|transport| {
        let server = TestServer::open(&settings(64 << 20), over(transport));
        let mut client = server.client(over(transport));
        assert_eq!(client.link_status().unwrap().transport, Some(transport.name()));
        assert!(client.get(b"nothing").unwrap().is_none());
        let mut last = 0;
        for length in [0, 1, 63, 511, 512, 513, 4096, 8192, 8193, 65_536, 1 << 20, 5 << 20] {
            let value: Vec<u8> = (0..length).map(|at| (at * 7 % 251) as u8).collect();
            let stored = client.put(b"key", &value, &PutOptions::default()).unwrap();
            assert!(stored.version > last, "versions grow");
            assert_eq!(stored.replaced, last != 0);
            last = stored.version;
            let got = client.get(b"key").unwrap().unwrap();
            assert_eq!(got.metadata().version, last);
            assert!(got.to_vec() == value, "{length} bytes over {transport:?}");
        }
        assert_eq!(client.delete(b"key", Condition::Always).unwrap(), Some(last));
        assert_eq!(client.delete(b"key", Condition::Always).unwrap(), None);
        assert!(client.get(b"key").unwrap().is_none());
        drop(client);
        until("everything is released", || {
            let usage = server.engine.index.usage();
            (usage.keys, usage.used_bytes) == (0, 0)
        });
    });
}

/// A client on this host reads values in place. They are unpinned at the latest with the next few requests, or when
/// both are idle.
#[test]
fn values_are_read_in_place_over_shared_memory_and_unpinned() {
    let in_place_reads = |transport| {
        let server = TestServer::open(&settings(64 << 20), over(transport));
        let mut client = server.client(over(transport));
        let value = |round: usize| vec![round as u8; 1025 + round % 500 * 111];
        let count =
            || server.engine.counts().in_place_reads.load(std::sync::atomic::Ordering::Relaxed);
        for round in 0..20_000 {
            // Clients read in place only while their slot block is polled; on a busy machine that may start late.
            if round >= 500 && (transport != Transport::Shm || count() > 0) {
                break;
            }
            client.put(b"key", &value(round), &PutOptions::default()).unwrap();
            let got = client.get(b"key").unwrap().unwrap();
            assert!(got.to_vec() == value(round), "{round}");
            let usage = server.engine.index.usage();
            assert!(usage.pins < 20 && usage.used_bytes < 2 << 20, "{round}: {usage:?}");
        }
        if transport != Transport::Shm {
            // Over messages an answer completes when the client polls again, or disconnects.
            drop(client);
        }
        until("pins are released", || server.engine.index.usage().pins == 0);
        count()
    };
    assert!(in_place_reads(Transport::Shm) > 0);
    assert_eq!(in_place_reads(Transport::Tcp), 0);
}

#[test]
fn a_condition_that_is_not_met_changes_nothing() {
    let server = TestServer::open(&settings(16 << 20), over(Transport::Shm));
    let mut client = server.client(over(Transport::Shm));
    let absent = PutOptions::default().with_condition(Condition::IfAbsent);
    let first = client.put(b"k", b"one", &absent).unwrap();
    let refused = client.put(b"k", b"two", &absent).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Condition(Some(first.version)));
    let version = |version| PutOptions::default().with_condition(Condition::IfVersion(version));
    let second = client.put(b"k", b"three", &version(first.version)).unwrap();
    let refused = client.put(b"k", b"four", &version(first.version)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Condition(Some(second.version)));
    assert_eq!(client.get(b"k").unwrap().unwrap().to_vec(), b"three");
    let refused = client.delete(b"k", Condition::IfVersion(1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Condition(Some(second.version)));
    let refused = client.put(b"gone", b"", &version(9)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Condition(None));
}

#[test]
fn a_value_expires() {
    let server = TestServer::open(&settings(16 << 20), over(Transport::Shm));
    let mut client = server.client(over(Transport::Shm));
    let soon = PutOptions::default().with_ttl(Duration::from_millis(80));
    client.put(b"short", b"lived", &soon).unwrap();
    let metadata = client.stat(b"short").unwrap().unwrap();
    assert!(metadata.expires_in.is_some_and(|left| left <= Duration::from_millis(80)));
    std::thread::sleep(Duration::from_millis(150));
    assert!(client.get(b"short").unwrap().is_none());
    assert!(client.stat(b"short").unwrap().is_none());
}

#[test]
fn listings_have_every_key_once() {
    each(|transport| {
        let server = TestServer::open(&settings(64 << 20), over(transport));
        let mut client = server.client(over(transport));
        for number in 0..3000 {
            let key = format!("key/{number:05}/{}", "x".repeat(number % 200));
            client.put(key.as_bytes(), &[0; 10], &PutOptions::default()).unwrap();
        }
        client.put(b"other", b"", &PutOptions::default()).unwrap();
        let (mut seen, mut next) = (std::collections::BTreeSet::new(), Some(Cursor::START));
        while let Some(from) = next {
            let page = client.list(b"key/", from).unwrap();
            for (key, metadata) in page.keys {
                assert_eq!(metadata.length, 10);
                assert!(seen.insert(key), "listed twice");
            }
            next = page.next;
        }
        assert_eq!(seen.len(), 3000);
    });
}

#[test]
fn many_values_are_put_and_read_in_one_call() {
    each(|transport| {
        let server = TestServer::open(&settings(256 << 20), over(transport));
        let mut client = server.client(over(transport));
        let keys: Vec<Vec<u8>> = (0..500).map(|n| format!("k{n}").into_bytes()).collect();
        let values: Vec<Vec<u8>> = (0..500).map(|n| vec![n as u8; n * 97]).collect();
        let items: Vec<(&[u8], &[u8])> =
            keys.iter().zip(&values).map(|(key, value)| (&key[..], &value[..])).collect();
        let stored = client.put_many(&items, &PutOptions::default());
        assert!(stored.into_iter().all(|stored| stored.is_ok()));
        let mut requested: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        requested.insert(250, b"missing");
        let mut got = client.get_many(&requested).unwrap();
        assert!(got.remove(250).is_none());
        for (value, got) in values.iter().zip(got) {
            assert!(got.unwrap().to_vec() == *value);
        }
    });
}

#[test]
fn long_values_are_transferred_in_chunks() {
    each(|transport| {
        let server = TestServer::open(&settings(256 << 20), over(transport));
        let mut client = server.client(over(transport));
        // Longer than the client buffer.
        let value: Vec<u8> = (0..100_u32 << 20).map(|at| (at / 3) as u8).collect();
        client.put(b"long", &value, &PutOptions::default()).unwrap();
        let error = client.get(b"long").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLong, "{error}");
        let mut reader = client.open(b"long", 0, None).unwrap().unwrap();
        assert_eq!(reader.length(), value.len() as u64);
        let mut at = 0;
        while let Some(chunk) = reader.next_chunk().unwrap() {
            assert!(chunk.to_vec() == value[at..at + chunk.len()]);
            at += chunk.len();
        }
        assert_eq!(at, value.len());
        drop(reader);
        let mut part = client.open(b"long", 50 << 20, Some(5 << 20)).unwrap().unwrap();
        let mut got = Vec::new();
        while let Some(chunk) = part.next_chunk().unwrap() {
            got.extend(chunk.to_vec());
        }
        drop(part);
        assert!(got == value[50 << 20..55 << 20]);
        client.delete(b"long", Condition::Always).unwrap();
        drop(client);
        until("everything is released", || {
            let usage = server.engine.index.usage();
            (usage.keys, usage.pins) == (0, 0)
        });
    });
}

#[test]
fn a_full_client_buffer_is_reported_immediately() {
    each(|transport| {
        let server = TestServer::open(&settings(64 << 20), over(transport));
        let mut settings = kv_client::Settings::new(server.address);
        (settings.link, settings.client_buffer_bytes) = (over(transport), 1 << 20);
        let mut client = kv_client::Client::connect(settings).unwrap();
        let keys: Vec<Vec<u8>> = (0..40).map(|n| format!("k{n}").into_bytes()).collect();
        for key in &keys {
            client.put(key, &[7; 60_000], &PutOptions::default()).unwrap();
        }
        let requested: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let refused = client.get_many(&requested).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ClientLimit, "{refused}");
        let mut held = Vec::new();
        let refused = loop {
            match client.get(b"k1") {
                Ok(value) => held.push(value),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::ClientLimit, "{refused}");
        assert!(held.len() > 5);
        held.clear();
        assert_eq!(client.get_many(&requested[..5]).unwrap().into_iter().flatten().count(), 5);
        assert!(client.put(b"k1", b"again", &PutOptions::default()).unwrap().replaced);
        assert_eq!(client.get(b"k1").unwrap().unwrap().to_vec(), b"again");
    });
}

#[test]
fn a_full_store_that_does_not_evict_reports_free_bytes() {
    let refusing =
        kv_server::Settings { when_full: kv_store::WhenFull::Refuse, ..settings(4 << 20) };
    let server = TestServer::open(&refusing, over(Transport::Shm));
    let mut client = server.client(over(Transport::Shm));
    let put = |client: &mut kv_client::Client, number: u32| {
        client.put(&number.to_le_bytes(), &[7; 100_000], &PutOptions::default())
    };
    let refused = (0..100).find_map(|number| put(&mut client, number).err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    assert!(refused.to_string().contains("bytes are free"), "{refused}");
    assert!(client.get(&0_u32.to_le_bytes()).unwrap().is_some(), "nothing was evicted");
    client.delete(&0_u32.to_le_bytes(), Condition::Always).unwrap();
    put(&mut client, 1000).unwrap();
}
