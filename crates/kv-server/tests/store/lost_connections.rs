//! Lost connections: a request is executed once, or its outcome is unknown.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fabric::link::Transport;
use kv_client::{AsyncClient, Client, Condition, Cursor, ErrorKind, PutOptions};

use crate::stamped_values::{Random, value, verify};
use crate::test_server::{TestServer, over, settings, until};

/// A TCP proxy to a store, whose connections can be cut.
struct Proxy {
    address: SocketAddr,
    connections: Arc<Connections>,
    to: Arc<Mutex<SocketAddr>>,
}

#[derive(Default)]
struct Connections {
    ends: Mutex<Vec<TcpStream>>,
    /// All are cut instead of passing on what the client sends next.
    cut_at_next_send: AtomicBool,
}

impl Connections {
    fn cut(&self) {
        for end in self.ends.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

impl Proxy {
    fn new(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            to: Arc::new(Mutex::new(to)),
        };
        let (connections, to) = (proxy.connections.clone(), proxy.to.clone());
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(*to.lock().unwrap()) else { continue };
                let both = [&near, &far].map(|end| end.try_clone().unwrap());
                connections.ends.lock().unwrap().extend(both);
                let of_client = Some(connections.clone());
                pass_on(near.try_clone().unwrap(), far.try_clone().unwrap(), of_client);
                pass_on(far, near, None);
            }
        });
        proxy
    }

    fn cut(&self) {
        self.connections.cut();
    }

    fn cut_at_next_send(&self) {
        self.connections.cut_at_next_send.store(true, Ordering::SeqCst);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, of_client: Option<Arc<Connections>>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 16 << 10];
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
        {
            let cuts = |all: &&Arc<Connections>| all.cut_at_next_send.swap(false, Ordering::SeqCst);
            if let Some(all) = of_client.as_ref().filter(cuts) {
                return all.cut();
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

#[test]
fn a_client_that_disconnects_leaves_no_session() {
    for transport in [Transport::Tcp, Transport::Shm] {
        let server = TestServer::open(&settings(16 << 20), over(transport));
        let mut client = server.client(over(transport));
        for _ in 0..100 {
            client.put(b"k", b"v", &PutOptions::default()).unwrap();
        }
        let sessions = server.engine.sessions();
        assert_eq!(sessions.len(), 1);
        assert!(sessions.bytes() > 100 * 32, "its writes are remembered");
        drop(client);
        until("nothing is left", || (sessions.len(), sessions.bytes()) == (0, 0));
    }
}

#[test]
fn the_session_of_a_lost_connection_is_resumed() {
    let server = TestServer::open(&settings(16 << 20), over(Transport::Tcp));
    let proxy = Proxy::new(server.address);
    let mut client = client(&proxy);
    client.put(b"k", b"v", &PutOptions::default()).unwrap();
    let bytes = server.engine.sessions().bytes();
    for _ in 0..3 {
        proxy.cut();
        client.put(b"k", b"v", &PutOptions::default()).unwrap();
        until("the lost link is closed", || server.connections() == 1);
        assert_eq!(server.engine.sessions().len(), 1);
    }
    assert!(server.engine.sessions().bytes() > bytes, "one session has all four writes");
}

fn client(proxy: &Proxy) -> Client {
    let mut settings = kv_client::Settings::new(proxy.address);
    settings.link = over(Transport::Tcp);
    settings.timeout = Duration::from_secs(60);
    Client::connect(settings).unwrap()
}

#[test]
fn a_write_whose_answer_was_lost_is_not_done_twice() {
    let server = TestServer::open(&settings(64 << 20), over(Transport::Tcp));
    let proxy = Proxy::new(server.address);
    let mut client = client(&proxy);
    let absent = PutOptions::default().with_condition(Condition::IfAbsent);
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let proxy = &proxy;
        // Cuts the connection around every second write.
        scope.spawn(move || {
            let mut random = Random(99);
            for () in receiver {
                std::thread::sleep(Duration::from_micros(random.below(4000)));
                proxy.cut();
            }
        });
        let mut unknown = 0;
        for number in 0..24_u64 {
            let key = number.to_le_bytes();
            let bytes = value(number, 1, [100, 5_000, 200_000][number as usize % 3]);
            if number % 2 == 0 {
                sender.send(()).unwrap();
            }
            // If the first attempt were not remembered, the second would find that the key exists.
            match client.put(&key, &bytes, &absent) {
                Ok(_) => {}
                // The old connection was still served.
                Err(error) if error.kind() == ErrorKind::Unknown => unknown += 1,
                Err(error) => panic!("key {number}: {error}"),
            }
            let got = client.get(&key).unwrap();
            verify(number, &got.unwrap().to_vec()).unwrap();
            client.delete(&key, Condition::Always).unwrap();
        }
        drop(sender);
        assert!(unknown <= 4, "{unknown} of 24 unknown");
    });
    proxy.cut();
    drop(client);
    until("nothing is held", || {
        let usage = server.engine.index.usage();
        [usage.keys, usage.pins, usage.reserved_bytes] == [0; 3]
    });
}

#[test]
fn a_write_in_flight_when_the_store_is_lost_is_unknown() {
    let first = TestServer::open(&settings(64 << 20), over(Transport::Tcp));
    let second = TestServer::open(&settings(64 << 20), over(Transport::Tcp));
    let proxy = Proxy::new(first.address);
    let mut client = client(&proxy);
    client.put(b"k", b"one", &PutOptions::default()).unwrap();
    *proxy.to.lock().unwrap() = second.address;
    let token = client.begin_put(b"k", b"two", &PutOptions::default()).unwrap();
    // It is sent, and does not arrive.
    proxy.cut_at_next_send();
    client.flush().unwrap();
    let error = client.finish_put(b"k", token).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert!(client.get(b"k").unwrap().is_none(), "it is another store, and nothing was resent");
    client.put(b"k", b"three", &PutOptions::default()).unwrap();
    assert_eq!(client.get(b"k").unwrap().unwrap().to_vec(), b"three");
}

#[test]
fn a_lost_read_is_repeated() {
    let server = TestServer::open(&settings(64 << 20), over(Transport::Tcp));
    let proxy = Proxy::new(server.address);
    let mut client = client(&proxy);
    client.put(b"k", b"value", &PutOptions::default()).unwrap();
    for _ in 0..3 {
        proxy.cut();
        assert_eq!(client.get(b"k").unwrap().unwrap().to_vec(), b"value");
    }
}

/// A get in one batch with another task's write is lost with it, and repeated: only the writer gets an error.
#[test]
fn a_read_in_a_batch_with_a_lost_write_is_repeated() {
    let first = TestServer::open(&settings(64 << 20), over(Transport::Tcp));
    let second = TestServer::open(&settings(64 << 20), over(Transport::Tcp));
    let proxy = Proxy::new(first.address);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let settings = kv_client::Settings::new(proxy.address).with_link(over(Transport::Tcp));
        let client = AsyncClient::connect(settings).await.unwrap();
        client.put(b"k", b"one", &PutOptions::default()).await.unwrap();
        *proxy.to.lock().unwrap() = second.address;
        proxy.cut_at_next_send();
        let options = PutOptions::default();
        let (put, got, keys, metadata) = tokio::join!(
            client.put(b"k", b"two", &options),
            client.get(b"k"),
            client.list(b"", Cursor::START),
            client.stat(b"k"),
        );
        assert_eq!(put.unwrap_err().kind(), ErrorKind::Unknown);
        assert!(got.unwrap().is_none(), "the second store never had it");
        assert!(keys.unwrap().keys.is_empty() && metadata.unwrap().is_none());
    });
}

/// The connection is lost between the requests of one value.
#[test]
fn a_long_value_is_read_again_when_the_connection_is_lost() {
    let server = TestServer::open(&settings(64 << 20), over(Transport::Tcp));
    let proxy = Proxy::new(server.address);
    let bytes = value(1, 1, 3 << 20);
    let mut sync = client(&proxy);
    sync.put(b"k", &bytes, &PutOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let settings = kv_client::Settings::new(proxy.address).with_link(over(Transport::Tcp));
        let client = AsyncClient::connect(settings).await.unwrap();
        let mut random = Random(7);
        for _ in 0..20 {
            let cut = async {
                tokio::time::sleep(Duration::from_micros(random.below(3000))).await;
                proxy.cut();
            };
            let (got, ()) = tokio::join!(client.get_expecting(b"k", 4096), cut);
            assert!(got.unwrap().unwrap() == bytes);
            assert!(sync.get_expecting(b"k", 4096).unwrap().unwrap() == bytes);
        }
    });
}

#[test]
fn an_unreachable_store_is_reported_within_the_deadline() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut settings = kv_client::Settings::new(unused);
    settings.timeout = Duration::from_secs(5);
    let error = Client::connect(settings).expect_err("there is no server");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&unused.to_string()), "{error}");
}

#[test]
fn the_next_server_is_resolved_by_name() {
    let server = TestServer::open(&settings(16 << 20), over(Transport::Tcp));
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let by_name = format!("localhost:{}", server.address.port());
    let settings =
        kv_client::Settings::new(unused).with_server(by_name).with_link(over(Transport::Tcp));
    let mut client = Client::connect(settings).unwrap();
    assert!(client.get(b"k").unwrap().is_none());
}
