//! One fuzz target each run, by the name in WIRELANE_FUZZ. Run by `cargo xtask fuzz`. The targets are in the crates, in the
//! module `fuzz` of each.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| TARGET.get_or_init(target)(bytes));

fn target() -> fn(&[u8]) {
    match std::env::var("WIRELANE_FUZZ").as_deref() {
        Ok("stream_engine") => fabric::fuzz::stream_engine,
        Ok("ring") => fabric::fuzz::ring,
        Ok("peer_socket") => fabric::fuzz::peer_socket,
        Ok("offers") => fabric::fuzz::offers,
        Ok("handshake") => fabric::fuzz::handshake,
        Ok("link_messages") => fabric::fuzz::link_messages,
        Ok("link_peer") => fabric::fuzz::link_peer,
        Ok("remote_region") => fabric::fuzz::remote_region,
        Ok("kv_messages") => kv_proto::fuzz::messages,
        Ok("netlink") => node::fuzz::netlink,
        Ok("cable") => node::fuzz::cable,
        Ok("snapshot") => node::fuzz::snapshot,
        Ok("tree") => node::fuzz::tree,
        Ok("texts") => node::fuzz::texts,
        Ok("capture") => doctor::fuzz::capture,
        Ok("error_lines") => doctor::fuzz::error_lines,
        Ok("nccl_output") => report::fuzz::nccl_output,
        other => panic!("no such fuzz target: {other:?}"),
    }
}
