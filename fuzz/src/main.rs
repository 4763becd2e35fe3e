//! One door of `fabric::fuzz` each run, by the name in WIRELANE_FUZZ. Run by `cargo xtask fuzz`.
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
        other => panic!("no such door: {other:?}"),
    }
}
