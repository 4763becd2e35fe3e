//! Encrypted lanes: eavesdropping, tampering, replays, and full buffers.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use snow::TransportState;

use crate::setup::{Fabric, Side, UnconnectedLane};
use crate::stream_engine::Stream;
use crate::tcp::connect::prepare;
use crate::tcp::encrypted_socket::{EncryptedSocket, MAX_PAYLOAD_BYTES};
use crate::tcp::lane::TcpLane;
use crate::tcp::lane_parameters::LaneParameters;
use crate::tcp::noise::{self, EMPTY_RECORD_BYTES, LENGTH_BYTES, MESSAGE_BYTES, TAG_BYTES};
use crate::tcp::offer::{ConnectMethod, Offer};
use crate::tcp::stream_header::STREAM_HEADER_BYTES;
use crate::tcp::{Config, Tcp};
use crate::{Completion, Done, Failure, Lane, Memory, Op, Pages, Region, Rights, wait};

fn encrypted() -> Tcp {
    Tcp::new(Config { encrypt: true, ..Config::default() })
}

/// Changes a record of the dialling end, by its index.
type Tamper = fn(usize, Vec<u8>) -> Vec<u8>;

type Log = Arc<Mutex<Vec<u8>>>;

/// A proxy to this address: forwards the dialling end's records, changed by `tamper`, and all answers. Logs
/// what it received.
fn proxy(to: SocketAddr, tamper: Tamper) -> (SocketAddr, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, recorded) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let log = recorded.clone();
    std::thread::spawn(move || -> io::Result<()> {
        let (mut near, mut far) = (listener.accept()?.0, TcpStream::connect(to)?);
        let (mut back, mut from) = (near.try_clone()?, far.try_clone()?);
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut back);
            back.shutdown(Shutdown::Both)
        });
        let mut handshake = [0; STREAM_HEADER_BYTES + MESSAGE_BYTES + EMPTY_RECORD_BYTES];
        near.read_exact(&mut handshake[..STREAM_HEADER_BYTES + MESSAGE_BYTES])?;
        far.write_all(&handshake[..STREAM_HEADER_BYTES + MESSAGE_BYTES])?;
        near.read_exact(&mut handshake[STREAM_HEADER_BYTES + MESSAGE_BYTES..])?;
        far.write_all(&handshake[STREAM_HEADER_BYTES + MESSAGE_BYTES..])?;
        log.lock().unwrap().extend(handshake);
        for number in 0.. {
            let record = record(&mut near)?;
            log.lock().unwrap().extend(&record);
            far.write_all(&tamper(number, record))?;
        }
        Ok(())
    });
    (address, recorded)
}

fn record(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; LENGTH_BYTES];
    socket.read_exact(&mut length)?;
    let mut record = vec![0; LENGTH_BYTES + usize::from(u16::from_le_bytes(length))];
    record[..LENGTH_BYTES].copy_from_slice(&length);
    socket.read_exact(&mut record[LENGTH_BYTES..])?;
    Ok(record)
}

/// The offer, with another address in it.
fn with_address(offer: &[u8], to: SocketAddr) -> Vec<u8> {
    Offer { method: ConnectMethod::Listen(to), ..Offer::from_bytes(offer).unwrap() }.to_bytes()
}

fn address(offer: &[u8]) -> SocketAddr {
    let ConnectMethod::Listen(address) = Offer::from_bytes(offer).unwrap().method else {
        panic!("no address")
    };
    address
}

fn connect(
    dial: Box<dyn UnconnectedLane>,
    accept: Box<dyn UnconnectedLane>,
    to_dial: &[u8],
) -> [Box<dyn Lane>; 2] {
    let to_accept = dial.offer();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| accept.connect(&to_accept, LIMIT).unwrap());
        [dial.connect(to_dial, LIMIT).unwrap(), accepted.join().unwrap()]
    })
}

/// Two ends connected through such a proxy.
fn pair_over_proxy(tamper: Tamper) -> [Box<dyn Lane>; 2] {
    let (dial, accept) = unconnected_pair(&encrypted());
    let (to, _) = proxy(address(&accept.offer()), tamper);
    let to_dial = with_address(&accept.offer(), to);
    connect(dial, accept, &to_dial)
}

fn unconnected_pair(fabric: &Tcp) -> (Box<dyn UnconnectedLane>, Box<dyn UnconnectedLane>) {
    (fabric.prepare_lane(Side::Dial).unwrap(), fabric.prepare_lane(Side::Accept).unwrap())
}

fn region(length: usize, fill: u8) -> Region {
    let memory = Memory::allocate(length, Pages::Plain).unwrap();
    memory.write(0, &vec![fill; length]);
    Tcp::default().register(&memory, Rights::ALL).unwrap()
}

fn post(lane: &mut dyn Lane, ops: impl IntoIterator<Item = Op>) {
    lane.post(&mut ops.into_iter().collect::<VecDeque<Op>>());
}

/// Polls both until the lane is dead at both ends; returns the completions of each.
fn until_dead(a: &mut dyn Lane, b: &mut dyn Lane) -> [Vec<Completion>; 2] {
    let (mut at_a, mut at_b) = (Vec::new(), Vec::new());
    let started = Instant::now();
    while a.stats().ended().is_none() || b.stats().ended().is_none() {
        assert!(started.elapsed() < LIMIT, "the lane is not dead");
        a.poll(&mut at_a);
        b.poll(&mut at_b);
    }
    [at_a, at_b]
}

#[test]
fn a_forged_record_ends_the_lane_and_is_not_delivered() {
    let first: Tamper = |_, mut record| {
        record[LENGTH_BYTES + 40] ^= 1;
        record
    };
    let [mut a, mut b] = pair_over_proxy(first);
    let shared = region(64, 0);
    let window = a.import(&b.grant(&shared).unwrap()).unwrap();
    post(&mut *a, [Op::write(1, region(64, 7).slice(..), window.at(0))]);
    let [done, _] = until_dead(&mut *a, &mut *b);
    assert_eq!(b.stats().ended(), Some(Failure::ProtocolError));
    assert_eq!(shared.slice(..).to_vec(), [0; 64]);
    assert_eq!(done[0].outcome, Err(Failure::PeerGone));

    // Of a long write, the records before the forged one are delivered; this one has a wrong tag.
    let second: Tamper = |number, mut record| {
        if number == 1 {
            *record.last_mut().unwrap() ^= 1;
        }
        record
    };
    let [mut a, mut b] = pair_over_proxy(second);
    let shared = region(1 << 20, 0);
    let window = a.import(&b.grant(&shared).unwrap()).unwrap();
    post(&mut *a, [Op::write(1, region(1 << 20, 7).slice(..), window.at(0))]);
    until_dead(&mut *a, &mut *b);
    assert_eq!(b.stats().ended(), Some(Failure::ProtocolError));
    let written = shared.slice(..).to_vec();
    let genuine = MAX_PAYLOAD_BYTES - 64;
    assert!(written[..genuine].iter().all(|byte| *byte == 7));
    assert!(written[genuine..].iter().all(|byte| *byte == 0));
}

#[test]
fn repeated_and_missing_records_end_the_lane() {
    let repeat: Tamper = |number, record| if number == 0 { record.repeat(2) } else { record };
    let leave_out: Tamper = |number, record| if number == 0 { Vec::new() } else { record };
    for (tamper, whole) in [(repeat, 1), (leave_out, 0)] {
        let [mut a, mut b] = pair_over_proxy(tamper);
        let buffer = region(16, 0);
        post(&mut *b, (0..3).map(|n| Op::receive(n, buffer.slice(..))));
        assert!(b.arm(), "it has reported its receives");
        let source = region(16, 7);
        let mut done = Vec::new();
        for n in 0..2 {
            post(&mut *a, [Op::send(n, source.slice(..))]);
            wait(&mut *a, &mut done, Duration::from_millis(50));
        }
        let [_, done] = until_dead(&mut *a, &mut *b);
        assert_eq!(b.stats().ended(), Some(Failure::ProtocolError));
        assert_eq!(done.iter().filter(|done| done.outcome.is_ok()).count(), whole);
        assert_eq!(done.len(), 3, "a receive was not returned");
    }
}

#[test]
fn neither_secrets_nor_bytes_are_seen_on_the_wire() {
    let (dial, accept) = unconnected_pair(&encrypted());
    let offers = [dial.offer(), accept.offer()].map(|offer| Offer::from_bytes(&offer).unwrap());
    let (to, recorded) = proxy(address(&accept.offer()), |_, record| record);
    let to_dial = with_address(&accept.offer(), to);
    let [mut a, mut b] = connect(dial, accept, &to_dial);
    let (shared, value) = (region(4096, 0), b"a private value");
    let source = region(4096, 0);
    source.memory().write(0, &value.repeat(9));
    let window = a.import(&b.grant(&shared).unwrap()).unwrap();
    post(&mut *a, [Op::write(1, source.slice(..), window.at(0))]);
    let (mut done_at_a, mut done) = (Vec::new(), Vec::new());
    while done_at_a.is_empty() {
        a.poll(&mut done_at_a);
        b.poll(&mut done);
    }
    assert_eq!(done_at_a[0].outcome, Ok(Done::Placed));
    assert_eq!(shared.slice(..).to_vec(), source.slice(..).to_vec());
    let recorded = recorded.lock().unwrap();
    assert!(recorded.len() > 4096);
    let seen = |bytes: &[u8]| recorded.windows(bytes.len()).any(|window| window == bytes);
    assert!(seen(&offers[1].id.to_le_bytes()), "the id is not encrypted");
    assert!(!seen(value));
    assert!(!offers.iter().any(|offer| seen(&offer.secret.to_le_bytes())));
}

#[test]
fn both_ends_must_have_the_same_setting() {
    for (dial, accept) in [(encrypted(), Tcp::default()), (Tcp::default(), encrypted())] {
        let (dial, accept) =
            (dial.prepare_lane(Side::Dial).unwrap(), accept.prepare_lane(Side::Accept).unwrap());
        let (to_dial, to_accept) = (accept.offer(), dial.offer());
        for (wrong_dial, offer) in [(dial, to_dial), (accept, to_accept)] {
            let Err(error) = wrong_dial.connect(&offer, LIMIT) else {
                panic!("connected with different settings")
            };
            let error = error.to_string();
            assert!(error.contains("encrypts, but") && error.contains("`encrypt`"), "{error}");
        }
    }
}

// Unknown connections.

/// The first bytes from an end with the secrets of these offers.
fn first_bytes(dial: &Offer, accept: &Offer) -> Vec<u8> {
    let lane_parameters = LaneParameters::new(dial, accept).unwrap();
    let mut started = noise::start(&lane_parameters, 0, Side::Dial).unwrap();
    [&lane_parameters.stream_header(0)[..], &noise::write(&mut started).unwrap()].concat()
}

#[test]
fn connections_without_the_secrets_get_no_answer_and_do_not_prevent_the_peer() {
    let (dial, accept) = unconnected_pair(&encrypted());
    let [ours, peers] =
        [dial.offer(), accept.offer()].map(|offer| Offer::from_bytes(&offer).unwrap());
    let to = address(&accept.offer());
    let unknown_peer = |sends: &[u8]| {
        let mut socket = TcpStream::connect(to).unwrap();
        socket.write_all(sends).unwrap();
        socket
    };
    let wrong_dial = Offer { secret: ours.secret ^ 1, ..ours.clone() };
    let other = Offer { secret: peers.secret ^ 1, ..peers.clone() };
    let unknown_peers = [
        unknown_peer(&first_bytes(&wrong_dial, &peers)),
        unknown_peer(&first_bytes(&ours, &other)),
        unknown_peer(
            &[&first_bytes(&ours, &peers)[..STREAM_HEADER_BYTES], &[7; MESSAGE_BYTES]].concat(),
        ),
        // As if the lane were not encrypted: the plain secret is not accepted.
        unknown_peer(
            &[&first_bytes(&ours, &peers)[..STREAM_HEADER_BYTES], &peers.secret.to_le_bytes()]
                .concat(),
        ),
    ];
    let to_dial = accept.offer();
    let lanes = connect(dial, accept, &to_dial);
    for mut unknown_peer in unknown_peers {
        assert!(
            !matches!(unknown_peer.read(&mut [0; 64]), Ok(1..)),
            "an unknown peer got an answer"
        );
    }
    drop(lanes);
}

/// An attacker on the network replays the peer's first bytes before they arrive: it gets an answer that it cannot
/// use, and does not replace the peer.
#[test]
fn a_replayed_handshake_does_not_replace_the_peer() {
    let (dial, accept) = unconnected_pair(&encrypted());
    let to = address(&accept.offer());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to_dial = with_address(&accept.offer(), listener.local_addr().unwrap());
    let repeater = std::thread::spawn(move || {
        let mut near = listener.accept().unwrap().0;
        let mut first_bytes = [0; STREAM_HEADER_BYTES + MESSAGE_BYTES];
        near.read_exact(&mut first_bytes).unwrap();
        let mut repeated = TcpStream::connect(to).unwrap();
        repeated.write_all(&first_bytes).unwrap();
        let mut answer = [0; MESSAGE_BYTES];
        repeated.read_exact(&mut answer).unwrap();
        // Without the key this confirmation is invalid.
        repeated.write_all(&[TAG_BYTES as u8; EMPTY_RECORD_BYTES]).unwrap();
        assert!(!matches!(repeated.read(&mut [0]), Ok(1..)), "the replay was accepted");
        let mut far = TcpStream::connect(to).unwrap();
        far.write_all(&first_bytes).unwrap();
        let (mut back, mut from) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        std::thread::spawn(move || io::copy(&mut from, &mut back));
        let _ = io::copy(&mut near, &mut far);
    });
    drop(connect(dial, accept, &to_dial));
    repeater.join().unwrap();
}

// Lanes built by hand, to access their state.

/// The two ends of an encrypted stream.
fn ends() -> [(TcpStream, TransportState); 2] {
    let (dial, accept) = unconnected_pair(&encrypted());
    let offers = [dial.offer(), accept.offer()].map(|offer| Offer::from_bytes(&offer).unwrap());
    let lane_parameters = LaneParameters::new(&offers[0], &offers[1]).unwrap();
    let begin = |side| noise::start(&lane_parameters, 0, side).unwrap();
    let (mut dial, mut accept) = (begin(Side::Dial), begin(Side::Accept));
    noise::read(&mut accept, &noise::write(&mut dial).unwrap()).unwrap();
    noise::read(&mut dial, &noise::write(&mut accept).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    [(near, dial), (far, accept)]
        .map(|(socket, noise)| (socket, noise.into_transport_mode().unwrap()))
}

fn lane((socket, noise): (TcpStream, TransportState)) -> TcpLane<EncryptedSocket> {
    let config = Config::default();
    let socket = prepare(socket, &config).unwrap();
    TcpLane::new(vec![EncryptedSocket::new(socket, noise)], &config).unwrap()
}

#[test]
fn invalid_records_of_a_peer_with_the_keys_are_protocol_errors() {
    let nothing = |noise: &mut TransportState| noise::confirm(noise).unwrap().to_vec();
    let no_frame = |noise: &mut TransportState| {
        let mut record = vec![0; LENGTH_BYTES + 64 + TAG_BYTES];
        noise.write_message(&[0xff; 64], &mut record[LENGTH_BYTES..]).unwrap();
        record[0] = (64 + TAG_BYTES) as u8;
        record
    };
    let too_short = |_: &mut TransportState| vec![3, 0, 1, 2, 3];
    for tamper in [&nothing as &dyn Fn(&mut TransportState) -> Vec<u8>, &no_frame, &too_short] {
        let [mut misbehaving, correct] = ends();
        let mut correct = lane(correct);
        let sends = tamper(&mut misbehaving.1);
        misbehaving.0.write_all(&sends).unwrap();
        wait(&mut correct, &mut Vec::new(), Duration::from_millis(200));
        assert_eq!(correct.stats().ended(), Some(Failure::ProtocolError), "{sends:?}");
    }
}

/// All data was read from the socket, but not all of it was processed in one poll.
#[test]
fn arm_fails_while_there_is_data_read_ahead() {
    let [mut a, mut b] = ends().map(lane);
    let (shared, source) = (region(100, 0), region(100, 7));
    let window = a.import(&b.grant(&shared).unwrap()).unwrap();
    post(&mut b, [Op::receive(1, shared.slice(..0))]);
    assert!(b.arm());
    std::thread::sleep(Duration::from_millis(20));
    a.poll(&mut Vec::new());
    // More than one poll processes in tests, less than is read ahead; and only the last one completes something.
    let writes = (0..700).map(|n| Op::write(n, source.slice(..), window.at(0)));
    post(&mut a, writes.chain([Op::write_imm(1, source.slice(..), window.at(0), 9)]));
    assert!(!a.engine.has_backlog(0), "not all of it was sent");
    std::thread::sleep(Duration::from_millis(50));
    let (mut done, mut refused) = (Vec::new(), 0);
    while b.poll(&mut done) == 0 {
        if !b.arm() {
            refused += 1;
            continue;
        }
        let mut fds = [PollFd::from_borrowed_fd(b.fd(), PollFlags::IN)];
        let ready = poll(&mut fds, Some(&Timespec { tv_sec: 2, tv_nsec: 0 })).unwrap();
        assert_eq!(ready, 1, "it slept with the message in its buffer");
    }
    assert!(refused > 0, "arm never failed: the test tests nothing");
    assert_eq!(done[0].outcome, Ok(Done::Received { length: 100, imm: Some(9) }));
}

/// The engine's queue is empty, the socket is full, and the peer sends nothing
/// before it has everything: only writability of the socket can wake us.
#[test]
fn unsent_encrypted_records_are_sent_after_sleeping() {
    for size in (1..400).map(|n| n * MAX_PAYLOAD_BYTES / 2) {
        let [mut a, mut b] = ends().map(lane);
        let (source, buffer) = (region(size, 7), region(size, 0));
        post(&mut b, [Op::receive(1, buffer.slice(..))]);
        assert!(b.arm());
        std::thread::sleep(Duration::from_millis(5));
        a.poll(&mut Vec::new());
        post(&mut a, [Op::send(2, source.slice(..))]);
        let unsent = a.engine.streams().any(Stream::has_unsent);
        if a.engine.backlog() > 0 || !unsent {
            continue;
        }
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut done = Vec::new();
                assert_eq!(wait(&mut a, &mut done, LIMIT), 1, "the sender was never woken");
                assert_eq!(done[0].outcome, Ok(Done::Placed));
            });
            // After the other end sleeps.
            std::thread::sleep(Duration::from_millis(100));
            let mut done = Vec::new();
            assert_eq!(wait(&mut b, &mut done, LIMIT), 1, "{size} bytes");
            wait(&mut b, &mut done, Duration::from_millis(100));
        });
        assert!(buffer.slice(..).to_vec().iter().all(|byte| *byte == 7));
        return;
    }
    panic!("no message filled the socket and left the engine empty");
}

const LIMIT: Duration = Duration::from_secs(20);
