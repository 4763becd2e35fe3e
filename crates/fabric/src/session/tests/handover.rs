//! Connections on the same address that are handed over: lanes and other protocols.

use std::sync::{Arc, Mutex, mpsc};

use super::*;

#[test]
fn streams_of_lanes_are_handed_over_after_their_header() {
    let (to, handed) = mpsc::channel();
    let to = Mutex::new(to);
    let mut config = config();
    config.on_lane = Some(Arc::new(move |header, socket| {
        let expected = header[4] == 3;
        if expected {
            to.lock().unwrap().send((header, socket)).unwrap();
        }
        expected
    }));
    let listener = open(config);
    let header = |stream: u8| [&b"WLT1"[..], &[stream], &[9; 16]].concat();
    let mut lane = connect_raw(&listener);
    lane.set_nodelay(true).unwrap();
    for byte in &header(3)[..20] {
        lane.write_all(&[*byte]).unwrap();
    }
    lane.write_all(b"\x09first frame").unwrap();
    let (received, mut socket) = handed.recv_timeout(LIMIT).unwrap();
    assert_eq!(received[..], header(3));
    socket.set_nonblocking(false).unwrap();
    let mut frame = [0; 11];
    socket.read_exact(&mut frame).unwrap();
    assert_eq!(&frame, b"first frame");
    wait_for("the count", || listener.counts().lanes() == 1);
    assert_eq!(answer(&listener, &header(4)), b"");
    wait_for("the refusal", || refusals(&listener) == [("unexpected_stream", 1)]);
    drop(connect_raw(&listener).write_all(&header(3)[..20]));
    wait_for("one cut short", || {
        refusals(&listener) == [("truncated", 1), ("unexpected_stream", 1)]
    });
}

#[test]
fn lanes_without_a_handler_are_unexpected() {
    let listener = open(config());
    assert_eq!(answer(&listener, b"WLT1\x00................"), b"");
    wait_for("the refusal", || refusals(&listener) == [("unexpected_stream", 1)]);
}

#[test]
fn other_protocols_are_handed_over_unread() {
    let (to, handed) = mpsc::channel();
    let to = Mutex::new(to);
    let mut config = config();
    config.on_other = Some(Arc::new(move |socket| to.lock().unwrap().send(socket).unwrap()));
    let listener = open(config);
    // One that starts like ours, and one for which a single byte is enough.
    for (begin, rest) in [(&b"PRI * HTTP/2.0\r\n"[..], &b""[..]), (b"WLX", b"Y"), (b"G", b"ET /")] {
        let mut initiator = connect_raw(&listener);
        initiator.write_all(begin).unwrap();
        let mut socket = handed.recv_timeout(LIMIT).unwrap();
        initiator.write_all(rest).unwrap();
        drop(initiator);
        socket.set_nonblocking(false).unwrap();
        let mut received = Vec::new();
        socket.read_to_end(&mut received).unwrap();
        assert_eq!(received, [begin, rest].concat());
    }
    assert_eq!((listener.counts().others(), refusals(&listener)), (3, vec![]));
    pair(&listener, &with_key());
}

#[test]
fn other_protocols_without_a_handler_are_refused() {
    let listener = open(config());
    let mut initiator = connect_raw(&listener);
    initiator.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let _ = initiator.read_to_end(&mut Vec::new());
    wait_for("the refusal", || refusals(&listener) == [("unknown_protocol", 1)]);
}
