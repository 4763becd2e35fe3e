//! Values read into and written from the caller's memory, and checksums.

use fabric::link::Transport;
use fabric::{Memory, Pages};
use kv_client::{ErrorKind, PutOptions};

use crate::test_server::{TestServer, over, settings};

fn each(test: impl Fn(Transport)) {
    for transport in [Transport::Shm, Transport::Tcp] {
        test(transport);
    }
}

#[test]
fn values_are_transferred_to_and_from_the_callers_memory() {
    each(|transport| {
        let server = TestServer::open(&settings(64 << 20), over(transport));
        let mut client = server.client(over(transport));
        let owned = vec![0; 8 << 20].into_boxed_slice();
        for memory in
            [Memory::allocate(8 << 20, Pages::Plain).unwrap(), Memory::from_boxed(owned).unwrap()]
        {
            let buffer = client.register(&memory).unwrap();
            for length in [0, 1, 100, 4096, 100_000, 3 << 20] {
                let value: Vec<u8> = (0..length).map(|at: usize| (at * 7 % 251) as u8).collect();
                memory.write(5, &value);
                client.put_from(b"k", &buffer, 5..5 + length, &PutOptions::default()).unwrap();
                assert!(
                    client.get(b"k").unwrap().unwrap().to_vec() == value,
                    "{length} over {transport:?}"
                );
                memory.write(4 << 20, &vec![1; (3 << 20) + 8]);
                let range = 4 << 20..(4 << 20) + length;
                let metadata = client.get_into(b"k", &buffer, range.clone()).unwrap().unwrap();
                assert_eq!(metadata.length, length as u64);
                let mut got = vec![0; length + 1];
                memory.read(range.start, &mut got);
                assert!(got[..length] == value && got[length] == 1, "{length} over {transport:?}");
                client.get_into_checked(b"k", &buffer, range).unwrap().unwrap();
            }
            // Only as much as fits.
            let metadata = client.get_into(b"k", &buffer, 0..10).unwrap().unwrap();
            assert_eq!(metadata.length, 3 << 20);
            assert!(client.get_into(b"missing", &buffer, 0..10).unwrap().is_none());
            let wrong = client.get_into(b"k", &buffer, 0..(8 << 20) + 1).unwrap_err();
            assert_eq!(wrong.kind(), ErrorKind::Misuse, "{wrong}");
            client.unregister(buffer).unwrap();
        }
    });
}

#[test]
fn the_number_of_registered_buffers_is_limited() {
    let server = TestServer::open(&settings(16 << 20), over(Transport::Shm));
    let mut client = server.client(over(Transport::Shm));
    let memory = Memory::allocate(4096, Pages::Plain).unwrap();
    let max = usize::from(client.limits().unwrap().regions);
    let buffers: Vec<_> = (0..max).map(|_| client.register(&memory).unwrap()).collect();
    let refused = client.register(&memory).unwrap_err();
    assert!(refused.to_string().contains("unregister some"), "{refused}");
    for (number, buffer) in buffers.into_iter().enumerate() {
        match number % 2 {
            0 => client.unregister(buffer).unwrap(),
            _ => drop(buffer),
        }
    }
    // If dropped buffers were not revoked, the store would refuse the second half.
    for _ in 0..max {
        client.register(&memory).unwrap();
    }
    let mut other = server.client(over(Transport::Shm));
    let foreign = other.register(&memory).unwrap();
    let refused = client.get_into(b"k", &foreign, 0..1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Misuse, "{refused}");
    let buffer = client.register(&memory).unwrap();
    client.put(b"k", b"v", &PutOptions::default()).unwrap();
    assert!(client.get_into(b"k", &buffer, 0..1).unwrap().is_some());
}

#[test]
fn checked_reads_return_complete_values() {
    each(|transport| {
        let server = TestServer::open(&settings(64 << 20), over(transport));
        let mut client = server.client(over(transport));
        assert!(client.get_checked(b"missing").unwrap().is_none());
        for length in [0, 1, 4095, 4096, 4097, 1 << 20, 5 << 20] {
            let value: Vec<u8> = (0..length).map(|at: u32| (at / 3) as u8).collect();
            client.put(b"k", &value, &PutOptions::default()).unwrap();
            assert!(client.get_checked(b"k").unwrap().unwrap().to_vec() == value, "{length}");
        }
    });
}
