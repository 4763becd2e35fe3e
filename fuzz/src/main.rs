//! One fuzz target each run, by the name in WIRELANE_FUZZ. Run by `cargo xtask fuzz`.
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
        Ok("kv_messages") => kv_messages,
        Ok("netlink") => node::fuzz::netlink,
        Ok("cable") => node::fuzz::cable,
        Ok("snapshot") => node::fuzz::snapshot,
        Ok("tree") => node::fuzz::tree,
        Ok("texts") => node::fuzz::texts,
        Ok("capture") => capture,
        Ok("error_lines") => error_lines,
        Ok("nccl_output") => nccl_output,
        other => panic!("no such fuzz target: {other:?}"),
    }
}

/// Messages of clients and stores: whatever parses must encode to the same bytes.
fn kv_messages(bytes: &[u8]) {
    use kv_proto::wire::{Answer, ClientHello, Entries, Message, ServerHello};
    if let Ok(hello) = ClientHello::parse(bytes) {
        assert_eq!(hello.to_bytes(), bytes);
    }
    if let Ok(hello) = ServerHello::parse(bytes) {
        assert_eq!(hello.to_bytes(), bytes);
    }
    if let Ok(answer) = Answer::parse(bytes) {
        // Not compared with the bytes: the value of an absent checksum or expiry is ignored.
        assert_eq!(Answer::parse(&answer.to_bytes()), Ok(answer));
    }
    let mut listed = Vec::new();
    if Entries::new(bytes).map(|entry| entry.map(|entry| entry.put(&mut listed))).all(|all| all.is_ok()) {
        assert_eq!(listed, bytes);
    }
    match Message::parse(bytes) {
        Ok(Message::Batch(batch)) => {
            let mut again = batch.head.to_bytes().to_vec();
            let encoded = batch.map(|request| request.map(|request| request.put(&mut again)));
            if encoded.fold(true, |complete, request| complete & request.is_ok()) {
                assert_eq!(again, bytes);
            }
        }
        Ok(Message::Grant(grant)) => assert_eq!(grant.to_bytes(), bytes),
        Ok(Message::Revoke { .. } | Message::CheckSlots) | Err(_) => {}
    }
}

/// A capture parsed in two pieces has the same packets as in one, even if damaged.
fn capture(bytes: &[u8]) {
    use doctor::capture::{Packet, PacketKind, Parser};
    let read = |pieces: &[&[u8]]| -> std::io::Result<Vec<Packet>> {
        let mut parser = Parser::default();
        let mut packets = Vec::new();
        for piece in pieces {
            packets.extend(parser.feed(piece)?);
        }
        let link_type = parser.header().map_or(0, |header| header.link_type);
        for packet in &packets {
            let _ = PacketKind::new(link_type, &packet.bytes);
        }
        Ok(packets)
    };
    let (first, second) = bytes.split_at(bytes.len() / 2);
    assert_eq!(read(&[bytes]).ok(), read(&[first, second]).ok());
}

/// Arbitrary log lines.
fn error_lines(bytes: &[u8]) {
    doctor::explain::parse(&String::from_utf8_lossy(bytes));
}

/// Output of nccl-tests: parsed results are finite, as JSON requires.
fn nccl_output(bytes: &[u8]) {
    let Ok(run) = report::nccl::read(&String::from_utf8_lossy(bytes)) else { return };
    let halves = run.collective.rows.iter().flat_map(|row| row.out_of_place.iter().chain(&row.in_place));
    for half in halves {
        assert!(half.time_us.is_finite() && half.bus_gb_per_second.is_finite());
    }
    assert!(run.average().is_none_or(f64::is_finite) && run.peak().is_none_or(|(_, peak)| peak >= 0.0));
}
