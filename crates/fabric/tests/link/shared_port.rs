//! One port for links and other protocols.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};

use fabric::link::{Endpoint, Transport};
use fabric::session::{OtherHandler, Reason};

use crate::pair::{LIMIT, LinkPair, anywhere, join, only, settings};

#[test]
fn other_protocols_are_handed_over_unread() {
    let (to_service, service) = mpsc::channel();
    let to_service = Mutex::new(to_service);
    let others: OtherHandler =
        Arc::new(move |socket: TcpStream| to_service.lock().unwrap().send(socket).unwrap());
    let ends = [(); 2].map(|()| Endpoint::new(only(&[Transport::Tcp])).unwrap());
    let listener = ends[1].listen_shared(anywhere(), Some(others)).unwrap();
    for request in ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET "] {
        let mut caller = TcpStream::connect(listener.address()).unwrap();
        caller.write_all(request.as_bytes()).unwrap();
        let mut socket = service.recv_timeout(LIMIT).unwrap();
        socket.set_nonblocking(false).unwrap();
        let mut received = vec![0; request.len()];
        socket.read_exact(&mut received).unwrap();
        assert_eq!(received, request.as_bytes());
        socket.write_all(b"200").unwrap();
        drop(socket);
        let mut answer = String::new();
        caller.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "200");
    }
    assert_eq!(listener.counts().others(), 3);
    // Links and their TCP lanes use the same port.
    let (initiator, accepted) = join(&ends[0], &listener);
    assert_eq!(listener.counts().accepted(), 1);
    assert!(listener.counts().lanes() > 0);
    LinkPair { initiator, listener, accepted, ends }.exercise();
}

#[test]
fn other_protocols_without_a_handler_are_refused_and_counted() {
    let endpoint = Endpoint::new(settings()).unwrap();
    let listener = endpoint.listen(anywhere()).unwrap();
    let mut caller = TcpStream::connect(listener.address()).unwrap();
    caller.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // Reset or closed, whichever comes first.
    let _ = caller.read_to_end(&mut Vec::new());
    assert_eq!(listener.counts().refused(Reason::UnknownProtocol), 1);
}
