//! One port for links and for something else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};

use fabric::link::{Class, Endpoint};
use fabric::session::{Others, Reason};

use crate::pair::{LIMIT, Two, anywhere, join, only, settings};

#[test]
fn what_speaks_something_else_is_handed_over_with_nothing_read() {
    let (to_service, service) = mpsc::channel();
    let to_service = Mutex::new(to_service);
    let others: Others =
        Arc::new(move |socket: TcpStream| to_service.lock().unwrap().send(socket).unwrap());
    let ends = [(); 2].map(|()| Endpoint::new(only(&[Class::Tcp])).unwrap());
    let listener = ends[1].listen_beside(anywhere(), Some(others)).unwrap();
    for says in ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET "] {
        let mut caller = TcpStream::connect(listener.address()).unwrap();
        caller.write_all(says.as_bytes()).unwrap();
        let mut socket = service.recv_timeout(LIMIT).unwrap();
        socket.set_nonblocking(false).unwrap();
        let mut heard = vec![0; says.len()];
        socket.read_exact(&mut heard).unwrap();
        assert_eq!(heard, says.as_bytes());
        socket.write_all(b"200").unwrap();
        drop(socket);
        let mut answer = String::new();
        caller.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "200");
    }
    assert_eq!(listener.counts().others(), 3);
    // Links and their TCP lanes come by the same port.
    let (dialler, acceptor) = join(&ends[0], &listener);
    assert_eq!(listener.counts().accepted(), 1);
    assert!(listener.counts().lanes() > 0);
    Two { dialler, listener, acceptor, ends }.exercise();
}

#[test]
fn where_nothing_else_is_served_it_is_sent_away_and_counted() {
    let endpoint = Endpoint::new(settings()).unwrap();
    let listener = endpoint.listen(anywhere()).unwrap();
    let mut caller = TcpStream::connect(listener.address()).unwrap();
    caller.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // Reset or closed, whichever comes first.
    let _ = caller.read_to_end(&mut Vec::new());
    assert_eq!(listener.counts().refused(Reason::NotOurs), 1);
}
