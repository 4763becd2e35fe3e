//! libfabric: two endpoints of one provider in one process.
//!
//! Needs libfabric1, which `cargo xtask test` installs. No device: the providers are those that
//! every machine has.
#![allow(missing_docs, reason = "a test")]

mod end;

use end::{Completion, End, Remote, library, offers};
use rdma_sys::Errno;
use rdma_sys::ofi::consts::*;

/// Runs every test over every provider that supports it. Before libfabric 1.18 `tcp` had no
/// reliable datagrams: `ofi_rxm` provides them there.
macro_rules! providers {
    ($( $module:ident = $provider:literal { $( $case:ident, )* } )*) => { $(
        mod $module {
            $( #[test] fn $case() { super::$case($provider); } )*
        }
    )* };
}

providers! {
    tcp = "tcp" {
        a_message_arrives,
        a_write_arrives_with_its_data,
        a_read_returns_the_peers_bytes,
        a_completion_wakes_a_waiting_descriptor,
    }
    tcp_rxm = "tcp;ofi_rxm" {
        a_message_arrives,
        a_write_arrives_with_its_data,
        a_read_returns_the_peers_bytes,
        atomics_add_and_swap,
        a_completion_wakes_a_waiting_descriptor,
    }
    shm = "shm" {
        a_message_arrives,
        a_write_arrives_with_its_data,
        a_read_returns_the_peers_bytes,
        atomics_add_and_swap,
    }
}

#[test]
fn the_library_reports_its_version_and_file() {
    let ofi = library();
    let (major, minor) = ofi.version();
    assert!((major, minor) >= (1, 9), "{major}.{minor}");
    assert!(ofi.abi().starts_with("FABRIC_1."), "{}", ofi.abi());
    assert!(ofi.file().is_absolute() && ofi.file().exists(), "{}", ofi.file().display());
}

/// Also if another copy is requested.
#[test]
fn a_process_has_one_libfabric() {
    let first = library().file().to_owned();
    let second = rdma_sys::Ofi::load(Some(std::path::Path::new("/nowhere/libfabric.so.1")));
    assert_eq!(second.unwrap_or_else(|error| panic!("{error}")).file(), first);
}

#[test]
fn an_absent_provider_is_enodata() {
    let found = offers(library(), "nowhere", FI_MSG).map(|_| ());
    assert_eq!(found, Err(Errno(libc::ENODATA)));
}

fn pair(provider: &str, caps: u64, wait: u32) -> (End, End) {
    let ofi = library();
    let open =
        || End::open(ofi, provider, caps, wait).unwrap_or_else(|e| panic!("{provider}: {e}"));
    let (mut near, mut far) = (open(), open());
    let (name, version) = near.provider();
    eprintln!("{name} {}.{}", version >> 16, version & 0xffff);
    near.connect(&far.name());
    far.connect(&near.name());
    (near, far)
}

/// Retries until the provider accepts it: a connection may have to be established first.
fn post(near: &End, far: &End, operation: impl Fn() -> Result<(), Errno>) {
    loop {
        match operation() {
            Err(Errno(libc::EAGAIN)) => {
                near.poll().unwrap_or_else(|failed| panic!("{failed:?}"));
                far.poll().unwrap_or_else(|failed| panic!("{failed:?}"));
            }
            other => return other.unwrap_or_else(|errno| panic!("{errno}")),
        }
    }
}

fn a_message_arrives(provider: &str) {
    let (mut near, far) = pair(provider, FI_MSG | FI_RMA, FI_WAIT_NONE);
    near.set(0, 0x1122_3344);
    post(&near, &far, || far.recv(1, 8, 64));
    post(&near, &far, || near.send(2, 0, 8));
    let sent = near.next(&far);
    assert_eq!((sent.slot, sent.flags & FI_SEND), (Some(2), FI_SEND));
    let received = far.next(&near);
    assert_eq!((received.slot, received.flags & FI_RECV), (Some(1), FI_RECV));
    assert_eq!((received.length, far.number(8)), (8, 0x1122_3344));
}

fn a_write_arrives_with_its_data(provider: &str) {
    let (mut near, far) = pair(provider, FI_MSG | FI_RMA, FI_WAIT_NONE);
    (0..512).for_each(|index| near.set(index, index as u64 + 1));
    let remote = far.remote();
    let target = Remote { start: remote.start + 1024 * 8, ..remote };
    post(&near, &far, || near.write(3, 0, 4096, target, Some(0xabcd)));
    let written = near.next(&far);
    assert_eq!((written.slot, written.flags & FI_WRITE), (Some(3), FI_WRITE));
    let Completion { flags, data, .. } = far.next(&near);
    let expected = FI_REMOTE_CQ_DATA | FI_REMOTE_WRITE;
    assert_eq!((flags & expected, data), (expected, 0xabcd));
    assert!((0..512).all(|index| far.number(1024 + index) == index as u64 + 1));
}

fn a_read_returns_the_peers_bytes(provider: &str) {
    let (near, mut far) = pair(provider, FI_MSG | FI_RMA, FI_WAIT_NONE);
    (0..4096).for_each(|index| far.set(index, index as u64 ^ 0x5555));
    let remote = far.remote();
    post(&near, &far, || near.read(4, 4096, 32 * 1024, remote));
    let read = near.next(&far);
    assert_eq!((read.slot, read.flags & FI_READ), (Some(4), FI_READ));
    assert!((0..4096).all(|index| near.number(4096 + index) == index as u64 ^ 0x5555));
    assert_eq!(far.take(), None, "a read is not reported to the peer");
}

fn atomics_add_and_swap(provider: &str) {
    let (mut near, mut far) = pair(provider, FI_MSG | FI_RMA | FI_ATOMIC, FI_WAIT_NONE);
    assert!(near.supports_atomics());
    far.set(0, 40);
    near.set(0, 2);
    let remote = far.remote();
    post(&near, &far, || near.atomic(5, 0, None, 1, remote));
    assert_eq!(near.next(&far).slot, Some(5));
    assert_eq!((near.number(1), far.number(0)), (40, 42));

    near.set(2, 42);
    near.set(3, 7);
    post(&near, &far, || near.atomic(6, 3, Some(2), 1, remote));
    assert_eq!(near.next(&far).slot, Some(6));
    assert_eq!((near.number(1), far.number(0)), (42, 7));
}

fn a_completion_wakes_a_waiting_descriptor(provider: &str) {
    let (mut near, far) = pair(provider, FI_MSG | FI_RMA, FI_WAIT_FD);
    near.set(0, 9);
    let fd = far.wait_fd().unwrap_or_else(|errno| panic!("{errno}"));
    post(&near, &far, || far.recv(1, 8, 64));
    post(&near, &far, || near.send(2, 0, 8));
    let received = loop {
        near.poll().unwrap_or_else(|failed| panic!("{failed:?}"));
        if far.may_wait() {
            wait(fd);
        }
        far.poll().unwrap_or_else(|failed| panic!("{failed:?}"));
        if let Some(received) = far.take() {
            break received;
        }
    };
    assert_eq!((received.slot, far.number(8)), (Some(1), 9));
}

/// Waits a short time only: the other end needs this thread too.
#[allow(unsafe_code, reason = "waits on a descriptor of the library")]
fn wait(fd: i32) {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, alive during the call; the descriptor is the queue's, which is open.
    let ready = unsafe { libc::poll(&mut poll, 1, 20) };
    assert!(ready >= 0);
}
