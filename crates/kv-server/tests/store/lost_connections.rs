//! Connections that are lost: a request is answered once, by the store that knows, or its outcome is unknown.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fabric::link::Class;
use kv_client::{AsyncClient, Client, Condition, Cursor, Kind, PutOptions};

use crate::stamped_values::{Chance, examine, value};
use crate::test_server::{Place, by, settings, until};

/// Passes connections on to a store, until it is cut.
struct Cable {
    address: SocketAddr,
    ends: Arc<Mutex<Vec<TcpStream>>>,
    to: Arc<Mutex<SocketAddr>>,
}

impl Cable {
    fn new(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let cable = Cable {
            address: listener.local_addr().unwrap(),
            ends: Arc::default(),
            to: Arc::new(Mutex::new(to)),
        };
        let (ends, to) = (cable.ends.clone(), cable.to.clone());
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(*to.lock().unwrap()) else { continue };
                let both = [&near, &far].map(|end| end.try_clone().unwrap());
                ends.lock().unwrap().extend(both);
                pass_on(near.try_clone().unwrap(), far.try_clone().unwrap());
                pass_on(far, near);
            }
        });
        cable
    }

    fn cut(&self) {
        for end in self.ends.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let mut bytes = [0; 16 << 10];
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
            && to.write_all(&bytes[..count]).is_ok()
        {}
        let _ = to.shutdown(Shutdown::Both);
    });
}

fn client(cable: &Cable) -> Client {
    let mut settings = kv_client::Settings::new(cable.address);
    settings.link = by(Class::Tcp);
    settings.deadline = Duration::from_secs(60);
    Client::connect(settings).unwrap()
}

#[test]
fn a_write_whose_answer_was_lost_is_not_done_twice() {
    let place = Place::open(&settings(64 << 20), by(Class::Tcp));
    let cable = Cable::new(place.address);
    let mut client = client(&cable);
    let absent = PutOptions::default().with_condition(Condition::IfAbsent);
    let (tell, told) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let cable = &cable;
        // Once in the middle of every second write, or a little before or after.
        scope.spawn(move || {
            let mut chance = Chance(99);
            for () in told {
                std::thread::sleep(Duration::from_micros(chance.below(4000)));
                cable.cut();
            }
        });
        let mut unknown = 0;
        for number in 0..24_u64 {
            let key = number.to_le_bytes();
            let bytes = value(number, 1, [100, 5_000, 200_000][number as usize % 3]);
            if number % 2 == 0 {
                tell.send(()).unwrap();
            }
            // If the first attempt had been forgotten, the second would find the key there.
            match client.put(&key, &bytes, &absent) {
                Ok(_) => {}
                // The old connection was still served.
                Err(error) if error.kind() == Kind::Unknown => unknown += 1,
                Err(error) => panic!("key {number}: {error}"),
            }
            let got = client.get(&key).unwrap();
            examine(number, &got.unwrap().to_vec()).unwrap();
            client.delete(&key, Condition::Always).unwrap();
        }
        drop(tell);
        assert!(unknown <= 4, "{unknown} of 24 unknown");
    });
    cable.cut();
    drop(client);
    until("nothing is held", || {
        let usage = place.engine.store.usage();
        [usage.keys, usage.pins, usage.reserved_bytes] == [0; 3]
    });
}

#[test]
fn a_write_in_flight_when_the_store_is_lost_is_unknown() {
    let first = Place::open(&settings(64 << 20), by(Class::Tcp));
    let second = Place::open(&settings(64 << 20), by(Class::Tcp));
    let cable = Cable::new(first.address);
    let mut client = client(&cable);
    client.put(b"k", b"one", &PutOptions::default()).unwrap();
    *cable.to.lock().unwrap() = second.address;
    let token = client.begin_put(b"k", b"two", &PutOptions::default()).unwrap();
    // The connection is cut before anything can be sent, and nobody has noticed yet.
    cable.cut();
    client.flush().unwrap();
    let error = client.finish_put(b"k", token).unwrap_err();
    assert_eq!(error.kind(), Kind::Unknown, "{error}");
    assert!(client.get(b"k").unwrap().is_none(), "it is another store, and nothing was resent");
    client.put(b"k", b"three", &PutOptions::default()).unwrap();
    assert_eq!(client.get(b"k").unwrap().unwrap().to_vec(), b"three");
}

#[test]
fn a_question_is_asked_again() {
    let place = Place::open(&settings(64 << 20), by(Class::Tcp));
    let cable = Cable::new(place.address);
    let mut client = client(&cable);
    client.put(b"k", b"value", &PutOptions::default()).unwrap();
    for _ in 0..3 {
        cable.cut();
        assert_eq!(client.get(b"k").unwrap().unwrap().to_vec(), b"value");
    }
}

/// A get that is sent together with another task's write is lost with it, and asked again: nobody sees an error but
/// the writer.
#[test]
fn a_read_in_a_batch_with_a_lost_write_is_repeated() {
    let first = Place::open(&settings(64 << 20), by(Class::Tcp));
    let second = Place::open(&settings(64 << 20), by(Class::Tcp));
    let cable = Cable::new(first.address);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let settings = kv_client::Settings::new(cable.address).with_link(by(Class::Tcp));
        let client = AsyncClient::connect(settings).await.unwrap();
        client.put(b"k", b"one", &PutOptions::default()).await.unwrap();
        *cable.to.lock().unwrap() = second.address;
        cable.cut();
        let options = PutOptions::default();
        let (put, got, keys, known) = tokio::join!(
            client.put(b"k", b"two", &options),
            client.get(b"k"),
            client.list(b"", Cursor::START),
            client.stat(b"k"),
        );
        assert_eq!(put.unwrap_err().kind(), Kind::Unknown);
        assert!(got.unwrap().is_none(), "the second store never had it");
        assert!(keys.unwrap().keys.is_empty() && known.unwrap().is_none());
    });
}

/// A value of several requests: the connection is lost between them.
#[test]
fn a_long_value_is_read_again_when_the_connection_is_lost() {
    let place = Place::open(&settings(64 << 20), by(Class::Tcp));
    let cable = Cable::new(place.address);
    let bytes = value(1, 1, 3 << 20);
    let mut sync = client(&cable);
    sync.put(b"k", &bytes, &PutOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let settings = kv_client::Settings::new(cable.address).with_link(by(Class::Tcp));
        let client = AsyncClient::connect(settings).await.unwrap();
        let mut chance = Chance(7);
        for _ in 0..20 {
            let cut = async {
                tokio::time::sleep(Duration::from_micros(chance.below(3000))).await;
                cable.cut();
            };
            let (got, ()) = tokio::join!(client.get_expecting(b"k", 4096), cut);
            assert!(got.unwrap().unwrap() == bytes);
            assert!(sync.get_expecting(b"k", 4096).unwrap().unwrap() == bytes);
        }
    });
}

#[test]
fn nobody_there_is_said_within_the_deadline() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut settings = kv_client::Settings::new(unused);
    settings.deadline = Duration::from_secs(5);
    let error = Client::connect(settings).expect_err("nobody is there");
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert!(error.to_string().contains(&unused.to_string()), "{error}");
}

#[test]
fn another_server_is_tried_by_its_name() {
    let place = Place::open(&settings(16 << 20), by(Class::Tcp));
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let by_name = format!("localhost:{}", place.address.port());
    let settings = kv_client::Settings::new(unused).with_server(by_name).with_link(by(Class::Tcp));
    let mut client = Client::connect(settings).unwrap();
    assert!(client.get(b"k").unwrap().is_none());
}
