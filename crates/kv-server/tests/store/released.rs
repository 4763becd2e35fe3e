//! Resources that a client drops are released.

use std::time::Duration;

use fabric::link::Transport;
use kv_client::{AsyncClient, Client, ErrorKind, PutOptions, Settings};

use crate::test_server::{TestServer, over, settings, until};

/// A few values of this length fit into the client buffer.
const LENGTH: usize = 60_000;

fn small(server: &TestServer, transport: Transport) -> Client {
    let small = Settings::new(server.address).with_link(over(transport));
    Client::connect(small.with_client_buffer_bytes(1 << 20)).unwrap()
}

fn each(test: impl Fn(&TestServer, Transport)) {
    for transport in [Transport::Shm, Transport::Tcp] {
        test(&TestServer::open(&settings(64 << 20), over(transport)), transport);
    }
}

#[test]
fn a_dropped_value_frees_the_client_buffer() {
    each(|server, transport| {
        let mut client = small(server, transport);
        client.put(b"k", &[7; LENGTH], &PutOptions::default()).unwrap();
        for _ in 0..100 {
            let value = client.get(b"k").unwrap().unwrap();
            let clone = value.clone();
            assert!(value == [7; LENGTH] && clone == [7; LENGTH]);
        }
    });
}

#[test]
fn a_dropped_pending_call_frees_the_client_buffer() {
    each(|server, transport| {
        let mut client = small(server, transport);
        client.put(b"k", &[7; LENGTH], &PutOptions::default()).unwrap();
        for round in 0..100 {
            // Before it is sent, while it is in flight, and after its answer was received.
            let get = client.begin_get(b"k", LENGTH).unwrap();
            let put = client.begin_put(b"other", &[8; LENGTH], &PutOptions::default()).unwrap();
            if round % 3 > 0 {
                client.flush().unwrap();
            }
            if round % 3 > 1 {
                client.ready(&mut Vec::new()).unwrap();
            }
            drop((get, put));
        }
        assert!(client.get(b"k").unwrap().unwrap() == [7; LENGTH]);
        assert!(
            client.get(b"other").unwrap().unwrap() == [8; LENGTH],
            "it was executed nevertheless"
        );
    });
}

#[test]
fn a_pending_call_of_another_client_is_refused() {
    each(|server, transport| {
        let [mut one, mut other] = [small(server, transport), small(server, transport)];
        let pending = one.begin_get(b"k", 10).unwrap();
        let refused = other.finish_get(b"k", pending).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Misuse, "{refused}");
        assert!(one.get(b"k").unwrap().is_none());
    });
}

/// Also if the client sends no further requests.
#[test]
fn a_dropped_reader_or_writer_is_closed_at_the_store() {
    each(|server, transport| {
        let mut client = server.client(over(transport));
        let usage = || server.engine.index.usage();
        client.put(b"k", &[7; 8 << 20], &PutOptions::default()).unwrap();
        let mut reader = client.open(b"k", 0, None).unwrap().unwrap();
        assert!(reader.next_chunk().unwrap().is_some());
        assert!(usage().pins > 0);
        drop(reader);
        // Over TCP the last answer is acknowledged with the next request, whatever it is.
        client.stat(b"k").unwrap();
        until("the value is not pinned", || usage().pins == 0);
        let mut writer = client.create(b"new", 8 << 20, &PutOptions::default()).unwrap();
        writer.write(&[8; 1 << 20]).unwrap();
        assert!(usage().reserved_bytes > 0);
        drop(writer);
        until("its memory is free", || usage().reserved_bytes == 0);
        assert!(client.get(b"new").unwrap().is_none());
    });
}

/// Otherwise the store would keep the handles of a cancelled call until they were idle for a minute.
#[test]
fn the_handles_of_a_cancelled_call_are_closed_at_the_store() {
    each(|server, transport| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let settings = Settings::new(server.address).with_link(over(transport));
            let client = AsyncClient::connect(settings).await.unwrap();
            let options = PutOptions::default();
            client.put(b"k", vec![7; 6 << 20], &options).await.unwrap();
            for round in 0..200 {
                let limit = Duration::from_micros(round * 20);
                let _ = tokio::time::timeout(limit, client.get_expecting(b"k", 4096)).await;
                let long = client.put(b"long", vec![8; 20 << 20], &options);
                if round % 10 == 0 {
                    let _ = tokio::time::timeout(limit * 10, long).await;
                }
            }
            let started = std::time::Instant::now();
            let usage = || server.engine.index.usage();
            while usage().pins > 0 || usage().reserved_bytes > 0 {
                assert!(started.elapsed() < Duration::from_secs(30), "{:?}", usage());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert!(client.get(b"k").await.unwrap().unwrap() == vec![7; 6 << 20]);
        });
    });
}
