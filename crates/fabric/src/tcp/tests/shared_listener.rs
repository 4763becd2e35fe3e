//! Lanes whose connections come from a shared listener.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::setup::{Fabric, Side, UnconnectedLane};
use crate::tcp::offer::Offer;
use crate::tcp::stream_header::stream_header;
use crate::tcp::{Config, ConnectionRouter, MAX_STREAMS, STREAM_HEADER_BYTES, Tcp};
use crate::{Error, Lane};

/// Starts a listener that delivers connections, until the process ends.
fn shared_listener(router: &ConnectionRouter) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, router) = (listener.local_addr().unwrap(), router.clone());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (mut socket, mut header) = (socket.unwrap(), [0; STREAM_HEADER_BYTES]);
            if socket.read_exact(&mut header).is_ok() {
                router.deliver(header, socket);
            }
        }
    });
    address
}

fn fabric(streams: u8) -> (Tcp, ConnectionRouter, SocketAddr) {
    let router = ConnectionRouter::default();
    let listener_address = shared_listener(&router);
    let config = Config {
        streams,
        router: Some(router.clone()),
        listener_address: Some(listener_address),
        ..Config::default()
    };
    (Tcp::new(config), router, listener_address)
}

fn connect(
    dial: Box<dyn UnconnectedLane>,
    accept: Box<dyn UnconnectedLane>,
) -> [Result<Box<dyn Lane>, Error>; 2] {
    let (to_dial, to_accept) = (accept.offer(), dial.offer());
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| accept.connect(&to_accept, LIMIT));
        [dial.connect(&to_dial, LIMIT), accepted.join().unwrap()]
    })
}

#[test]
fn lanes_that_share_a_listener_get_their_own_connections() {
    let (fabric, ..) = fabric(3);
    let pairs: Vec<_> = (0..4)
        .map(|_| {
            (fabric.prepare_lane(Side::Dial).unwrap(), fabric.prepare_lane(Side::Accept).unwrap())
        })
        .collect();
    std::thread::scope(|scope| {
        for (dial, accept) in pairs {
            scope.spawn(|| connect(dial, accept).map(Result::unwrap));
        }
    });
}

/// The id is visible on the network, and gives no access.
#[test]
fn a_connection_with_the_id_alone_is_refused_and_does_not_prevent_the_peer() {
    let (fabric, router, listener_address) = fabric(1);
    let (dial, accept) =
        (fabric.prepare_lane(Side::Dial).unwrap(), fabric.prepare_lane(Side::Accept).unwrap());
    let offer = Offer::from_bytes(&accept.offer()).unwrap();
    let unknown_peer = |sends: &[u8]| {
        let mut socket = TcpStream::connect(listener_address).unwrap();
        socket.write_all(&[&stream_header(0, offer.id)[..], sends].concat()).unwrap();
        socket
    };
    let (silent, mut wrong) = (unknown_peer(&[]), unknown_peer(&(offer.secret ^ 1).to_le_bytes()));
    let lanes = connect(dial, accept).map(Result::unwrap);
    assert!(!matches!(wrong.read(&mut [0; 16]), Ok(1..)), "an unknown peer got an answer");
    // A replay of the peer's messages is refused after the lane is connected.
    let mut late = unknown_peer(&offer.secret.to_le_bytes());
    assert!(!matches!(late.read(&mut [0; 16]), Ok(1..)));
    assert!(!router.deliver(stream_header(0, offer.id), silent));
    drop(lanes);
}

#[test]
fn only_expected_connections_are_delivered_up_to_a_limit() {
    let (fabric, router, listener_address) = fabric(1);
    let socket = || TcpStream::connect(listener_address).unwrap();
    let unconnected = fabric.prepare_lane(Side::Accept).unwrap();
    let id = Offer::from_bytes(&unconnected.offer()).unwrap().id;
    assert!(!router.deliver(stream_header(0, id ^ 1), socket()), "no lane expects it");
    let mut other = stream_header(0, id);
    other[3] ^= 1;
    assert!(!router.deliver(other, socket()), "not a stream header");
    for _ in 0..MAX_STREAMS {
        assert!(router.deliver(stream_header(0, id), socket()));
    }
    assert!(!router.deliver(stream_header(0, id), socket()), "the limit is reached");
    drop(unconnected);
    assert!(
        !router.deliver(stream_header(0, id), socket()),
        "the lane that expected it is dropped"
    );
}

#[test]
fn a_missing_listener_address_is_an_error() {
    let (fabric, ..) = fabric(1);
    let accept = fabric.prepare_lane(Side::Accept).unwrap();
    let dial = Tcp::default().prepare_lane(Side::Dial).unwrap();
    let Err(error) = dial.connect(&accept.offer(), LIMIT) else { panic!("no address was set") };
    assert!(error.to_string().contains("uses a shared listener"), "{error}");
    let dial = fabric.prepare_lane(Side::Dial).unwrap();
    let Err(error) = accept.connect(&dial.offer(), Duration::from_millis(50)) else { panic!() };
    assert!(
        error.to_string().contains("accept on the shared listener: the peer did not connect"),
        "{error}"
    );
}

const LIMIT: Duration = Duration::from_secs(20);
