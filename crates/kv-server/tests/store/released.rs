//! What a client holds is free again when it is dropped.

use fabric::link::Class;
use kv_client::{Client, Kind, PutOptions, Settings};

use crate::place::{Place, by, settings};

/// A receive buffer that holds a few values of this length.
const LENGTH: usize = 60_000;

fn small(place: &Place, class: Class) -> Client {
    let small = Settings::new(place.address).with_link(by(class));
    Client::connect(small.with_receive_buffer_bytes(1 << 20)).unwrap()
}

fn each(test: impl Fn(&Place, Class)) {
    for class in [Class::Shm, Class::Tcp] {
        test(&Place::open(&settings(64 << 20), by(class)), class);
    }
}

#[test]
fn a_dropped_value_frees_the_receive_buffer() {
    each(|place, class| {
        let mut client = small(place, class);
        client.put(b"k", &[7; LENGTH], &PutOptions::default()).unwrap();
        for _ in 0..100 {
            let value = client.get(b"k").unwrap().unwrap();
            let clone = value.clone();
            assert!(value == [7; LENGTH] && clone == [7; LENGTH]);
        }
    });
}

#[test]
fn a_dropped_pending_call_frees_the_receive_buffer() {
    each(|place, class| {
        let mut client = small(place, class);
        client.put(b"k", &[7; LENGTH], &PutOptions::default()).unwrap();
        for round in 0..100 {
            // Before it is sent, while it is in flight, and after its answer is here.
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
        assert!(client.get(b"other").unwrap().unwrap() == [8; LENGTH], "it was done all the same");
    });
}

#[test]
fn a_pending_call_of_another_client_is_refused() {
    each(|place, class| {
        let [mut one, mut other] = [small(place, class), small(place, class)];
        let pending = one.begin_get(b"k", 10).unwrap();
        let refused = other.finish_get(b"k", pending).unwrap_err();
        assert_eq!(refused.kind(), Kind::Misuse, "{refused}");
        assert!(one.get(b"k").unwrap().is_none());
    });
}
