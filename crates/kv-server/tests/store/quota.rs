//! The quota of bytes in flight: a client that has too many is told to ask again, and loses nothing.

use std::time::Duration;

use fabric::link::Class;
use kv_client::{Kind, PutOptions, Resource, Settings};

use crate::stamped_values::{examine, value};
use crate::test_server::{Place, by, settings, until};

#[test]
fn a_client_that_stages_too_much_is_told_and_others_write_on() {
    for class in [Class::Shm, Class::Tcp] {
        let mut settings = settings(64 << 20);
        settings.max_in_flight = Some(8 << 20);
        let place = Place::open(&settings, by(class));
        let mut greedy = Settings::new(place.address);
        (greedy.link, greedy.deadline) = (by(class), Duration::from_millis(300));
        let mut greedy = kv_client::Client::connect(greedy).unwrap();
        let options = PutOptions::default();
        // Each is left open: the store keeps it for a while.
        std::mem::forget(greedy.create(b"one", 3 << 20, &options).unwrap());
        let error = greedy.create(b"two", 2 << 20, &options).expect_err("more than half of 8 MiB");
        assert_eq!(error.kind(), Kind::Overloaded, "{error}");
        assert_eq!(error.resource(), Some(Resource::StoreInFlight), "{error}");
        greedy.put(b"short", &[1; 300], &options).unwrap();
        let mut other = place.client(by(class));
        other.put(b"three", &value(3, 1, 4 << 20), &options).unwrap();
        assert_eq!(place.engine.quota().used(), 3 << 20);
        assert!(place.engine.quota().refused() > 0);
        drop((greedy, other));
        until("everything is back", || {
            place.engine.quota().used() == 0 && place.engine.store.usage().reserved_bytes == 0
        });
    }
}

/// Many at once want more than there may be: all of it is stored all the same, one after the other.
#[test]
fn who_is_told_to_wait_asks_again_and_nothing_is_lost() {
    let mut settings = settings(128 << 20);
    settings.max_in_flight = Some(2 << 20);
    let place = Place::open(&settings, by(Class::Tcp));
    std::thread::scope(|scope| {
        for number in 0..6_u64 {
            let mut client = place.client(by(Class::Tcp));
            scope.spawn(move || {
                for round in 0..8 {
                    let name = number * 100 + round;
                    let key = name.to_le_bytes();
                    let bytes = value(name, 1, 1 << 20);
                    client.put(&key, &bytes, &PutOptions::default()).unwrap();
                    let got = client.get(&key).unwrap().unwrap();
                    examine(name, &got.to_vec()).unwrap();
                }
            });
        }
    });
    assert_eq!(place.engine.store.usage().keys, 48);
    assert_eq!(place.engine.quota().used(), 0);
}
