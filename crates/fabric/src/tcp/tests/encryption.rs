//! Encrypted lanes, on wires that listen, lie and repeat, and when buffers are full.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use snow::TransportState;

use crate::engine::Stream;
use crate::setup::{Fabric, Half, Side};
use crate::tcp::connect::prepare;
use crate::tcp::encrypted_socket::{RECORD, Sealed};
use crate::tcp::hello::HELLO;
use crate::tcp::lane::TcpLane;
use crate::tcp::noise::{self, LENGTH, MESSAGE, RECORD_OF_NOTHING, TAG};
use crate::tcp::offer::{Approach, Offer};
use crate::tcp::terms::Terms;
use crate::tcp::{Config, Tcp};
use crate::{Completion, Done, Failure, Lane, Memory, Op, Pages, Region, Rights, wait};

fn encrypted() -> Tcp {
    Tcp::new(Config { encrypt: true, ..Config::default() })
}

/// What a wire makes of a record of the dialling end, by its number.
type Lie = fn(usize, Vec<u8>) -> Vec<u8>;

type Log = Arc<Mutex<Vec<u8>>>;

/// A wire to this address: passes on what the dialling end says, as `lie` has it, and all answers. Keeps
/// what it received.
fn wire(to: SocketAddr, lie: Lie) -> (SocketAddr, Log) {
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
        let mut met = [0; HELLO + MESSAGE + RECORD_OF_NOTHING];
        near.read_exact(&mut met[..HELLO + MESSAGE])?;
        far.write_all(&met[..HELLO + MESSAGE])?;
        near.read_exact(&mut met[HELLO + MESSAGE..])?;
        far.write_all(&met[HELLO + MESSAGE..])?;
        log.lock().unwrap().extend(met);
        for number in 0.. {
            let record = record(&mut near)?;
            log.lock().unwrap().extend(&record);
            far.write_all(&lie(number, record))?;
        }
        Ok(())
    });
    (address, recorded)
}

fn record(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; LENGTH];
    socket.read_exact(&mut length)?;
    let mut record = vec![0; LENGTH + usize::from(u16::from_le_bytes(length))];
    record[..LENGTH].copy_from_slice(&length);
    socket.read_exact(&mut record[LENGTH..])?;
    Ok(record)
}

/// The offer, with another address in it.
fn moved(offer: &[u8], to: SocketAddr) -> Vec<u8> {
    Offer { approach: Approach::Listens(to), ..Offer::from_bytes(offer).unwrap() }.to_bytes()
}

fn address(offer: &[u8]) -> SocketAddr {
    let Approach::Listens(address) = Offer::from_bytes(offer).unwrap().approach else {
        panic!("no address")
    };
    address
}

fn connect(dial: Box<dyn Half>, accept: Box<dyn Half>, to_dial: &[u8]) -> [Box<dyn Lane>; 2] {
    let to_accept = dial.offer();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| accept.connect(&to_accept, LIMIT).unwrap());
        [dial.connect(to_dial, LIMIT).unwrap(), accepted.join().unwrap()]
    })
}

/// Two ends with such a wire between them.
fn pair_over(lie: Lie) -> [Box<dyn Lane>; 2] {
    let (dial, accept) = halves(&encrypted());
    let (to, _) = wire(address(&accept.offer()), lie);
    let to_dial = moved(&accept.offer(), to);
    connect(dial, accept, &to_dial)
}

fn halves(fabric: &Tcp) -> (Box<dyn Half>, Box<dyn Half>) {
    (fabric.half(Side::Dial).unwrap(), fabric.half(Side::Accept).unwrap())
}

fn region(length: usize, fill: u8) -> Region {
    let memory = Memory::allocate(length, Pages::Plain).unwrap();
    memory.write(0, &vec![fill; length]);
    Tcp::default().register(&memory, Rights::ALL).unwrap()
}

fn post(lane: &mut dyn Lane, ops: impl IntoIterator<Item = Op>) {
    lane.post(&mut ops.into_iter().collect::<VecDeque<Op>>());
}

/// Polls both until the lane is dead at both ends; gives what came back at each.
fn until_dead(a: &mut dyn Lane, b: &mut dyn Lane) -> [Vec<Completion>; 2] {
    let (mut at_a, mut at_b) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    while a.stats().ended().is_none() || b.stats().ended().is_none() {
        assert!(begun.elapsed() < LIMIT, "the lane lives on");
        a.poll(&mut at_a);
        b.poll(&mut at_b);
    }
    [at_a, at_b]
}

#[test]
fn a_forged_record_ends_the_lane_and_not_a_byte_of_it_gets_anywhere() {
    let first: Lie = |_, mut record| {
        record[LENGTH + 40] ^= 1;
        record
    };
    let [mut a, mut b] = pair_over(first);
    let shared = region(64, 0);
    let window = a.import(&b.grant(&shared).unwrap()).unwrap();
    post(&mut *a, [Op::write(1, region(64, 7).slice(..), window.at(0))]);
    let [done, _] = until_dead(&mut *a, &mut *b);
    assert_eq!(b.stats().ended(), Some(Failure::ProtocolError));
    assert_eq!(shared.slice(..).to_vec(), [0; 64]);
    assert_eq!(done[0].outcome, Err(Failure::PeerGone));

    // Of a long one, records before the forged one are the peer's: here in its tag.
    let second: Lie = |number, mut record| {
        if number == 1 {
            *record.last_mut().unwrap() ^= 1;
        }
        record
    };
    let [mut a, mut b] = pair_over(second);
    let shared = region(1 << 20, 0);
    let window = a.import(&b.grant(&shared).unwrap()).unwrap();
    post(&mut *a, [Op::write(1, region(1 << 20, 7).slice(..), window.at(0))]);
    until_dead(&mut *a, &mut *b);
    assert_eq!(b.stats().ended(), Some(Failure::ProtocolError));
    let written = shared.slice(..).to_vec();
    let genuine = RECORD - 64;
    assert!(written[..genuine].iter().all(|byte| *byte == 7));
    assert!(written[genuine..].iter().all(|byte| *byte == 0));
}

#[test]
fn records_are_taken_once_and_none_is_missed() {
    let repeat: Lie = |number, record| if number == 0 { record.repeat(2) } else { record };
    let leave_out: Lie = |number, record| if number == 0 { Vec::new() } else { record };
    for (lie, whole) in [(repeat, 1), (leave_out, 0)] {
        let [mut a, mut b] = pair_over(lie);
        let room = region(16, 0);
        post(&mut *b, (0..3).map(|n| Op::receive(n, room.slice(..))));
        assert!(b.arm(), "it has told of its receives");
        let source = region(16, 7);
        let mut done = Vec::new();
        for n in 0..2 {
            post(&mut *a, [Op::send(n, source.slice(..))]);
            wait(&mut *a, &mut done, Duration::from_millis(50));
        }
        let [_, done] = until_dead(&mut *a, &mut *b);
        assert_eq!(b.stats().ended(), Some(Failure::ProtocolError));
        assert_eq!(done.iter().filter(|done| done.outcome.is_ok()).count(), whole);
        assert_eq!(done.len(), 3, "every receive comes back");
    }
}

#[test]
fn neither_tokens_nor_bytes_are_seen_on_the_wire() {
    let (dial, accept) = halves(&encrypted());
    let offers = [dial.offer(), accept.offer()].map(|offer| Offer::from_bytes(&offer).unwrap());
    let (to, recorded) = wire(address(&accept.offer()), |_, record| record);
    let to_dial = moved(&accept.offer(), to);
    let [mut a, mut b] = connect(dial, accept, &to_dial);
    let (shared, secret) = (region(4096, 0), b"what nobody else may read");
    let source = region(4096, 0);
    source.memory().write(0, &secret.repeat(9));
    let window = a.import(&b.grant(&shared).unwrap()).unwrap();
    post(&mut *a, [Op::write(1, source.slice(..), window.at(0))]);
    let (mut over, mut done) = (Vec::new(), Vec::new());
    while over.is_empty() {
        a.poll(&mut over);
        b.poll(&mut done);
    }
    assert_eq!(over[0].outcome, Ok(Done::Placed));
    assert_eq!(shared.slice(..).to_vec(), source.slice(..).to_vec());
    let recorded = recorded.lock().unwrap();
    assert!(recorded.len() > 4096);
    let seen = |bytes: &[u8]| recorded.windows(bytes.len()).any(|window| window == bytes);
    assert!(seen(&offers[1].id.to_le_bytes()), "whom it calls is no secret");
    assert!(!seen(secret));
    assert!(!offers.iter().any(|offer| seen(&offer.token.to_le_bytes())));
}

#[test]
fn both_ends_must_want_it() {
    for (dial, accept) in [(encrypted(), Tcp::default()), (Tcp::default(), encrypted())] {
        let (dial, accept) = (dial.half(Side::Dial).unwrap(), accept.half(Side::Accept).unwrap());
        let (to_dial, to_accept) = (accept.offer(), dial.offer());
        for (half, offer) in [(dial, to_dial), (accept, to_accept)] {
            let Err(error) = half.connect(&offer, LIMIT) else { panic!("they do not agree") };
            let error = error.to_string();
            assert!(error.contains("encrypts, and") && error.contains("`encrypt`"), "{error}");
        }
    }
}

// Unknown peers.

/// What somebody says who knows whom to call, and these tokens.
fn greeting(dial: &Offer, accept: &Offer) -> Vec<u8> {
    let terms = Terms::new(dial, accept).unwrap();
    let mut begun = noise::begin(&terms, 0, Side::Dial).unwrap();
    [&terms.hello(0)[..], &noise::write(&mut begun).unwrap()].concat()
}

#[test]
fn unknown_peers_without_the_tokens_are_told_nothing_and_the_peer_gets_in() {
    let (dial, accept) = halves(&encrypted());
    let [ours, peers] =
        [dial.offer(), accept.offer()].map(|offer| Offer::from_bytes(&offer).unwrap());
    let to = address(&accept.offer());
    let unknown_peer = |sends: &[u8]| {
        let mut socket = TcpStream::connect(to).unwrap();
        socket.write_all(sends).unwrap();
        socket
    };
    let half = Offer { token: ours.token ^ 1, ..ours.clone() };
    let other = Offer { token: peers.token ^ 1, ..peers.clone() };
    let unknown_peers = [
        unknown_peer(&greeting(&half, &peers)),
        unknown_peer(&greeting(&ours, &other)),
        unknown_peer(&[&greeting(&ours, &peers)[..HELLO], &[7; MESSAGE]].concat()),
        // As if the lane were not encrypted: the tokens alone are of no use.
        unknown_peer(&[&greeting(&ours, &peers)[..HELLO], &peers.token.to_le_bytes()].concat()),
    ];
    let to_dial = accept.offer();
    let lanes = connect(dial, accept, &to_dial);
    for mut unknown_peer in unknown_peers {
        assert!(
            !matches!(unknown_peer.read(&mut [0; 64]), Ok(1..)),
            "an unknown peer is told nothing"
        );
    }
    drop(lanes);
}

/// Somebody on the wire repeats what the peer says, before it arrives: it gets an answer that is of no use
/// to it, and does not take the peer's place.
#[test]
fn one_who_repeats_the_peers_greeting_does_not_take_its_place() {
    let (dial, accept) = halves(&encrypted());
    let to = address(&accept.offer());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to_dial = moved(&accept.offer(), listener.local_addr().unwrap());
    let repeater = std::thread::spawn(move || {
        let mut near = listener.accept().unwrap().0;
        let mut greeting = [0; HELLO + MESSAGE];
        near.read_exact(&mut greeting).unwrap();
        let mut repeated = TcpStream::connect(to).unwrap();
        repeated.write_all(&greeting).unwrap();
        let mut answer = [0; MESSAGE];
        repeated.read_exact(&mut answer).unwrap();
        // It knows no key, so this confirms nothing.
        repeated.write_all(&[TAG as u8; RECORD_OF_NOTHING]).unwrap();
        assert!(!matches!(repeated.read(&mut [0]), Ok(1..)), "it is turned away");
        let mut far = TcpStream::connect(to).unwrap();
        far.write_all(&greeting).unwrap();
        let (mut back, mut from) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        std::thread::spawn(move || io::copy(&mut from, &mut back));
        let _ = io::copy(&mut near, &mut far);
    });
    drop(connect(dial, accept, &to_dial));
    repeater.join().unwrap();
}

// Lanes by hand, to see into them.

/// The two ends of an encrypted stream.
fn ends() -> [(TcpStream, TransportState); 2] {
    let (dial, accept) = halves(&encrypted());
    let offers = [dial.offer(), accept.offer()].map(|offer| Offer::from_bytes(&offer).unwrap());
    let terms = Terms::new(&offers[0], &offers[1]).unwrap();
    let begin = |side| noise::begin(&terms, 0, side).unwrap();
    let (mut dial, mut accept) = (begin(Side::Dial), begin(Side::Accept));
    noise::read(&mut accept, &noise::write(&mut dial).unwrap()).unwrap();
    noise::read(&mut dial, &noise::write(&mut accept).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    [(near, dial), (far, accept)]
        .map(|(socket, noise)| (socket, noise.into_transport_mode().unwrap()))
}

fn lane((socket, noise): (TcpStream, TransportState)) -> TcpLane<Sealed> {
    let config = Config::default();
    let socket = prepare(socket, &config).unwrap();
    TcpLane::new(vec![Sealed::new(socket, noise)], &config).unwrap()
}

#[test]
fn a_peer_that_knows_the_keys_can_lie_too() {
    let nothing = |noise: &mut TransportState| noise::confirm(noise).unwrap().to_vec();
    let no_frame = |noise: &mut TransportState| {
        let mut record = vec![0; LENGTH + 64 + TAG];
        noise.write_message(&[0xff; 64], &mut record[LENGTH..]).unwrap();
        record[0] = (64 + TAG) as u8;
        record
    };
    let too_short = |_: &mut TransportState| vec![3, 0, 1, 2, 3];
    for lie in [&nothing as &dyn Fn(&mut TransportState) -> Vec<u8>, &no_frame, &too_short] {
        let [mut liar, honest] = ends();
        let mut honest = lane(honest);
        let sends = lie(&mut liar.1);
        liar.0.write_all(&sends).unwrap();
        wait(&mut honest, &mut Vec::new(), Duration::from_millis(200));
        assert_eq!(honest.stats().ended(), Some(Failure::ProtocolError), "{sends:?}");
    }
}

/// Everything has left the kernel, but not all of it was asked for in one poll.
#[test]
fn what_was_read_ahead_is_not_slept_on() {
    let [mut a, mut b] = ends().map(lane);
    let (shared, source) = (region(100, 0), region(100, 7));
    let window = a.import(&b.grant(&shared).unwrap()).unwrap();
    post(&mut b, [Op::receive(1, shared.slice(..0))]);
    assert!(b.arm());
    std::thread::sleep(Duration::from_millis(20));
    a.poll(&mut Vec::new());
    // More than one poll reads in tests, less than is read ahead; and the peer is woken for the last alone.
    let writes = (0..700).map(|n| Op::write(n, source.slice(..), window.at(0)));
    post(&mut a, writes.chain([Op::write_imm(1, source.slice(..), window.at(0), 9)]));
    assert!(!a.engine.is_blocked(0), "all of it is with the kernel");
    std::thread::sleep(Duration::from_millis(50));
    let (mut done, mut refused) = (Vec::new(), 0);
    while b.poll(&mut done) == 0 {
        if !b.arm() {
            refused += 1;
            continue;
        }
        let mut fds = [PollFd::from_borrowed_fd(b.fd(), PollFlags::IN)];
        let ready = poll(&mut fds, Some(&Timespec { tv_sec: 2, tv_nsec: 0 })).unwrap();
        assert_eq!(ready, 1, "it sleeps, with the message in its buffer");
    }
    assert!(refused > 0, "else the case has proved nothing");
    assert_eq!(done[0].outcome, Ok(Done::Received { length: 100, imm: Some(9) }));
}

/// The engine has handed on everything, the socket has not taken it, and the peer has nothing to say
/// before it has all: only the socket can wake us.
#[test]
fn what_was_sealed_and_not_sent_is_not_slept_on() {
    for size in (1..400).map(|n| n * RECORD / 2) {
        let [mut a, mut b] = ends().map(lane);
        let (source, room) = (region(size, 7), region(size, 0));
        post(&mut b, [Op::receive(1, room.slice(..))]);
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
            // Not before the other sleeps.
            std::thread::sleep(Duration::from_millis(100));
            let mut done = Vec::new();
            assert_eq!(wait(&mut b, &mut done, LIMIT), 1, "{size} bytes");
            wait(&mut b, &mut done, Duration::from_millis(100));
        });
        assert!(room.slice(..).to_vec().iter().all(|byte| *byte == 7));
        return;
    }
    panic!("no message filled the socket and left the engine empty");
}

const LIMIT: Duration = Duration::from_secs(20);
