//! One door each run, by the name in WIRELANE_FUZZ. Run by `cargo xtask fuzz`.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static DOOR: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| DOOR.get_or_init(door)(bytes));

fn door() -> fn(&[u8]) {
    match std::env::var("WIRELANE_FUZZ").as_deref() {
        Ok("engine") => fabric::fuzz::engine,
        Ok("ring") => fabric::fuzz::ring,
        Ok("courier") => fabric::fuzz::courier,
        Ok("offers") => fabric::fuzz::offers,
        Ok("handshake") => fabric::fuzz::handshake,
        Ok("link_messages") => fabric::fuzz::link_messages,
        Ok("link_peer") => fabric::fuzz::link_peer,
        Ok("remote_region") => fabric::fuzz::remote_region,
        Ok("kv_messages") => kv_messages,
        Ok("netlink") => node::fuzz::netlink,
        Ok("cable") => node::fuzz::cable,
        Ok("snapshot") => node::fuzz::snapshot,
        Ok("tree") => node::fuzz::tree,
        Ok("texts") => node::fuzz::texts,
        other => panic!("no such door: {other:?}"),
    }
}

/// What clients and stores say to each other: what is understood is written again just so.
fn kv_messages(bytes: &[u8]) {
    use kv_proto::wire::{Answer, Entries, Message, Opening, Welcome};
    if let Ok(opening) = Opening::parse(bytes) {
        assert_eq!(opening.to_bytes(), bytes);
    }
    if let Ok(welcome) = Welcome::parse(bytes) {
        assert_eq!(welcome.to_bytes(), bytes);
    }
    if let Ok(answer) = Answer::parse(bytes) {
        // A checksum or an expiry that is not there has no value.
        assert_eq!(Answer::parse(&answer.to_bytes()), Ok(answer));
    }
    let mut listed = Vec::new();
    if Entries::new(bytes).map(|entry| entry.map(|entry| entry.put(&mut listed))).all(|all| all.is_ok()) {
        assert_eq!(listed, bytes);
    }
    match Message::parse(bytes) {
        Ok(Message::Batch(batch)) => {
            let mut again = batch.head.to_bytes().to_vec();
            let whole = batch.map(|request| request.map(|request| request.put(&mut again)));
            if whole.fold(true, |whole, request| whole & request.is_ok()) {
                assert_eq!(again, bytes);
            }
        }
        Ok(Message::Grant(grant)) => assert_eq!(grant.to_bytes(), bytes),
        Ok(Message::Forget { .. } | Message::Look) | Err(_) => {}
    }
}
