//! Lanes whose connections come by a listener that they share.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::setup::{Fabric, Half, Side};
use crate::tcp::hello::hello;
use crate::tcp::offer::Offer;
use crate::tcp::{Callers, Config, HELLO, MAX_STREAMS, Tcp};
use crate::{Error, Lane};

/// Delivers every connection it can, as long as the process lives.
fn acceptor(callers: &Callers) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, callers) = (listener.local_addr().unwrap(), callers.clone());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (mut socket, mut hello) = (socket.unwrap(), [0; HELLO]);
            if socket.read_exact(&mut hello).is_ok() {
                callers.deliver(hello, socket);
            }
        }
    });
    address
}

fn fabric(streams: u8) -> (Tcp, Callers, SocketAddr) {
    let callers = Callers::default();
    let acceptor = acceptor(&callers);
    let config = Config {
        streams,
        callers: Some(callers.clone()),
        acceptor: Some(acceptor),
        ..Config::default()
    };
    (Tcp::new(config), callers, acceptor)
}

fn connect(dial: Box<dyn Half>, accept: Box<dyn Half>) -> [Result<Box<dyn Lane>, Error>; 2] {
    let (to_dial, to_accept) = (accept.offer(), dial.offer());
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| accept.connect(&to_accept, LIMIT));
        [dial.connect(&to_dial, LIMIT), accepted.join().unwrap()]
    })
}

#[test]
fn halves_that_share_a_acceptor_each_get_their_own() {
    let (fabric, ..) = fabric(3);
    let pairs: Vec<_> = (0..4)
        .map(|_| (fabric.half(Side::Dial).unwrap(), fabric.half(Side::Accept).unwrap()))
        .collect();
    std::thread::scope(|scope| {
        for (dial, accept) in pairs {
            scope.spawn(|| connect(dial, accept).map(Result::unwrap));
        }
    });
}

/// Whom to call is seen by everybody on the path. It lets nobody in.
#[test]
fn an_unknown_peer_who_knows_whom_to_call_does_not_keep_the_peer_out() {
    let (fabric, callers, acceptor) = fabric(1);
    let (dial, accept) = (fabric.half(Side::Dial).unwrap(), fabric.half(Side::Accept).unwrap());
    let offer = Offer::from_bytes(&accept.offer()).unwrap();
    let unknown_peer = |sends: &[u8]| {
        let mut socket = TcpStream::connect(acceptor).unwrap();
        socket.write_all(&[&hello(0, offer.id)[..], sends].concat()).unwrap();
        socket
    };
    let (silent, mut wrong) = (unknown_peer(&[]), unknown_peer(&(offer.token ^ 1).to_le_bytes()));
    let lanes = connect(dial, accept).map(Result::unwrap);
    assert!(!matches!(wrong.read(&mut [0; 16]), Ok(1..)), "an unknown peer is told nothing");
    // Repeating what the peer said is of no use when the lane is there.
    let mut late = unknown_peer(&offer.token.to_le_bytes());
    assert!(!matches!(late.read(&mut [0; 16]), Ok(1..)));
    assert!(!callers.deliver(hello(0, offer.id), silent));
    drop(lanes);
}

#[test]
fn only_who_is_expected_is_delivered_and_only_so_many() {
    let (fabric, callers, acceptor) = fabric(1);
    let socket = || TcpStream::connect(acceptor).unwrap();
    let half = fabric.half(Side::Accept).unwrap();
    let id = Offer::from_bytes(&half.offer()).unwrap().id;
    assert!(!callers.deliver(hello(0, id ^ 1), socket()), "nobody expects it");
    let mut other = hello(0, id);
    other[3] ^= 1;
    assert!(!callers.deliver(other, socket()), "no hello");
    for _ in 0..MAX_STREAMS {
        assert!(callers.deliver(hello(0, id), socket()));
    }
    assert!(!callers.deliver(hello(0, id), socket()), "enough wait");
    drop(half);
    assert!(!callers.deliver(hello(0, id), socket()), "who expected it is gone");
}

#[test]
fn an_acceptor_that_was_not_named_is_said() {
    let (fabric, ..) = fabric(1);
    let accept = fabric.half(Side::Accept).unwrap();
    let dial = Tcp::default().half(Side::Dial).unwrap();
    let Err(error) = dial.connect(&accept.offer(), LIMIT) else { panic!("no listener was named") };
    assert!(error.to_string().contains("reached by a listener"), "{error}");
    let dial = fabric.half(Side::Dial).unwrap();
    let Err(error) = accept.connect(&dial.offer(), Duration::from_millis(50)) else { panic!() };
    assert!(error.to_string().contains("accept by the listener: the peer did not come"), "{error}");
}

const LIMIT: Duration = Duration::from_secs(20);
