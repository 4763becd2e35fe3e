//! Stores that drain: requests in flight finish, new ones are sent to the next store.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fabric::link::Transport;
use kv_client::{Client, ErrorKind, PutOptions, Settings};

use crate::stamped_values::{value, verify};
use crate::test_server::{TestServer, over, settings, until};

const DRAIN_LIMIT: Duration = Duration::from_secs(30);

fn client_of(servers: &[SocketAddr], transport: Transport) -> Client {
    let mut settings = Settings::new(servers[0]);
    settings.servers = servers.iter().copied().map(Into::into).collect();
    settings.link = over(transport);
    settings.client_buffer_bytes = 8 << 20;
    Client::connect(settings).unwrap()
}

/// A client with a short timeout.
fn impatient_client(server: &TestServer) -> Client {
    let mut settings = Settings::new(server.address);
    (settings.link, settings.timeout) = (over(Transport::Tcp), Duration::from_millis(500));
    Client::connect(settings).unwrap()
}

/// Clients that write and read without a pause switch to the next store without an error: each write
/// is executed by one of the two.
#[test]
fn clients_switch_to_the_next_store() {
    for transport in [Transport::Shm, Transport::Tcp] {
        let mut first = TestServer::open(&settings(64 << 20), over(transport));
        let second = TestServer::open(&settings(64 << 20), over(transport));
        let servers = [first.address, second.address];
        let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let (stop, rounds) = (&stop, &rounds);
            let work = |number: u64| {
                let mut client = client_of(&servers, transport);
                let options = PutOptions::default();
                let mut round = 0;
                while !stop.load(Ordering::SeqCst) {
                    round += 1;
                    let name = number * 100 + round % 16;
                    let key = name.to_le_bytes();
                    let length = [100, 3000, 300_000][round as usize % 3];
                    let bytes = value(name, round, length);
                    client.put(&key, &bytes, &options).unwrap();
                    // It may have been put to the first store.
                    if let Some(got) = client.get(&key).unwrap() {
                        verify(name, &got.to_vec()).unwrap();
                    }
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
            };
            let threads: Vec<_> = (1..4).map(|number| scope.spawn(move || work(number))).collect();
            until("they are working", || rounds.load(Ordering::SeqCst) > 50);
            first.drain(DRAIN_LIMIT);
            assert_eq!(first.ended(), 0, "no link was cut");
            let before = rounds.load(Ordering::SeqCst);
            until("they continue", || rounds.load(Ordering::SeqCst) > before + 50);
            stop.store(true, Ordering::SeqCst);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let usage = first.engine.index.usage();
        assert_eq!([usage.pins, usage.reserved_bytes, usage.detached], [0; 3]);
        assert!(second.engine.index.usage().puts > 0);
    }
}

/// A client that was idle while its store ended does not send a write to the old one.
#[test]
fn an_idle_client_writes_to_the_next_store() {
    for transport in [Transport::Shm, Transport::Tcp] {
        let mut first = TestServer::open(&settings(16 << 20), over(transport));
        let second = TestServer::open(&settings(16 << 20), over(transport));
        let mut client = client_of(&[first.address, second.address], transport);
        client.put(b"k", b"one", &PutOptions::default()).unwrap();
        first.drain(DRAIN_LIMIT);
        assert_eq!(first.ended(), 0);
        client.put(b"k", b"two", &PutOptions::default()).unwrap();
        assert_eq!(client.get(b"k").unwrap().unwrap().to_vec(), b"two");
        assert_eq!(second.engine.index.usage().puts, 1);
    }
}

/// The chunks of a value that was started before are still accepted, but no new requests.
#[test]
fn a_value_in_chunks_is_finished() {
    let mut server = TestServer::open(&settings(64 << 20), over(Transport::Tcp));
    let mut writer = server.client(over(Transport::Tcp));
    let mut other = impatient_client(&server);
    let long = value(1, 1, 2 << 20);
    let mut staged = writer.create(b"long", long.len() as u64, &PutOptions::default()).unwrap();
    staged.write(&long[..1 << 20]).unwrap();
    server.drain(DRAIN_LIMIT);
    while other.stat(b"k").is_ok() {}
    staged.write(&long[1 << 20..]).unwrap();
    staged.commit().unwrap();
    assert_eq!(server.ended(), 0);
    assert_eq!(server.engine.index.usage().puts, 1);
}

/// A client that never finishes its value is disconnected at the drain limit.
#[test]
fn a_client_that_does_not_finish_is_disconnected() {
    let mut server = TestServer::open(&settings(64 << 20), over(Transport::Tcp));
    let mut client = impatient_client(&server);
    let mut staged = client.create(b"long", 1 << 20, &PutOptions::default()).unwrap();
    server.drain(Duration::from_millis(200));
    assert_eq!(server.ended(), 1);
    let error = staged.write(&[1; 1 << 20]).and_then(|()| staged.commit()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut), "{error}");
    let usage = server.engine.index.usage();
    assert_eq!([usage.puts, usage.reserved_bytes], [0; 2]);
}
