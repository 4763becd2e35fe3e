//! Stores that end in order: what was begun is finished, what was not is asked of the next store.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fabric::link::Class;
use kv_client::{Client, Kind, PutOptions, Settings};

use crate::stamped_values::{examine, value};
use crate::test_server::{Place, by, settings, until};

const PATIENCE: Duration = Duration::from_secs(30);

fn client_of(servers: &[SocketAddr], class: Class) -> Client {
    let mut settings = Settings::new(servers[0]);
    settings.servers = servers.iter().copied().map(Into::into).collect();
    settings.link = by(class);
    settings.receive_buffer_bytes = 8 << 20;
    Client::connect(settings).unwrap()
}

/// One that does not wait long for a store that is gone.
fn hasty(place: &Place) -> Client {
    let mut settings = Settings::new(place.address);
    (settings.link, settings.deadline) = (by(Class::Tcp), Duration::from_millis(500));
    Client::connect(settings).unwrap()
}

/// Clients that write and read without a pause go over to the next store, and none is told of an error: each write
/// was done by the one or by the other.
#[test]
fn clients_go_on_with_the_next_store() {
    for class in [Class::Shm, Class::Tcp] {
        let mut first = Place::open(&settings(64 << 20), by(class));
        let second = Place::open(&settings(64 << 20), by(class));
        let servers = [first.address, second.address];
        let (over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let (over, rounds) = (&over, &rounds);
            let work = |number: u64| {
                let mut client = client_of(&servers, class);
                let options = PutOptions::default();
                let mut round = 0;
                while !over.load(Ordering::SeqCst) {
                    round += 1;
                    let name = number * 100 + round % 16;
                    let key = name.to_le_bytes();
                    let length = [100, 3000, 300_000][round as usize % 3];
                    let bytes = value(name, round, length);
                    client.put(&key, &bytes, &options).unwrap();
                    // It may have been put to the store that is gone since.
                    if let Some(got) = client.get(&key).unwrap() {
                        examine(name, &got.to_vec()).unwrap();
                    }
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
            };
            let threads: Vec<_> = (1..4).map(|number| scope.spawn(move || work(number))).collect();
            until("they are at it", || rounds.load(Ordering::SeqCst) > 50);
            first.drain(PATIENCE);
            assert_eq!(first.ended(), 0, "nobody was cut");
            let before = rounds.load(Ordering::SeqCst);
            until("they go on", || rounds.load(Ordering::SeqCst) > before + 50);
            over.store(true, Ordering::SeqCst);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let usage = first.engine.store.usage();
        assert_eq!([usage.pins, usage.reserved_bytes, usage.detached], [0; 3]);
        assert!(second.engine.store.usage().puts > 0);
    }
}

/// A client that has slept while its store ended does not send a write to nobody.
#[test]
fn who_was_idle_writes_to_the_next_store_and_knows_it() {
    for class in [Class::Shm, Class::Tcp] {
        let mut first = Place::open(&settings(16 << 20), by(class));
        let second = Place::open(&settings(16 << 20), by(class));
        let mut client = client_of(&[first.address, second.address], class);
        client.put(b"k", b"one", &PutOptions::default()).unwrap();
        first.drain(PATIENCE);
        assert_eq!(first.ended(), 0);
        client.put(b"k", b"two", &PutOptions::default()).unwrap();
        assert_eq!(client.get(b"k").unwrap().unwrap().to_vec(), b"two");
        assert_eq!(second.engine.store.usage().puts, 1);
    }
}

/// A value that comes in pieces was begun before: all of it is taken. Nothing new is begun meanwhile.
#[test]
fn what_comes_in_pieces_is_finished() {
    let mut place = Place::open(&settings(64 << 20), by(Class::Tcp));
    let mut writer = place.client(by(Class::Tcp));
    let mut other = hasty(&place);
    let long = value(1, 1, 2 << 20);
    let mut staged = writer.create(b"long", long.len() as u64, &PutOptions::default()).unwrap();
    staged.write(&long[..1 << 20]).unwrap();
    place.drain(PATIENCE);
    while other.stat(b"k").is_ok() {}
    staged.write(&long[1 << 20..]).unwrap();
    staged.commit().unwrap();
    assert_eq!(place.ended(), 0);
    assert_eq!(place.engine.store.usage().puts, 1);
}

/// Who keeps a value open for ever is cut when the time is up, and notices.
#[test]
fn who_does_not_end_is_cut() {
    let mut place = Place::open(&settings(64 << 20), by(Class::Tcp));
    let mut client = hasty(&place);
    let mut staged = client.create(b"long", 1 << 20, &PutOptions::default()).unwrap();
    place.drain(Duration::from_millis(200));
    assert_eq!(place.ended(), 1);
    let error = staged.write(&[1; 1 << 20]).and_then(|()| staged.commit()).unwrap_err();
    assert!(matches!(error.kind(), Kind::Unavailable | Kind::Deadline), "{error}");
    let usage = place.engine.store.usage();
    assert_eq!([usage.puts, usage.reserved_bytes], [0; 2]);
}
