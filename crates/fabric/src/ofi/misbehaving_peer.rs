//! Peers that send what no peer of ours sends, and unknown peers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::av::Address;
use super::config::Config;
use super::domain::{Domain, Shared};
use super::endpoint::{Direction, Endpoint, Remote};
use super::frame::{Change, Frame, PART, Progress, opened};
use super::gather::Gather;
use super::offer::Offer;
use super::outgoing::{Outgoing, Use};
use super::peer_process::Home;
use super::slots::Slots;
use super::{choose, survey};
use crate::half::{Fabric, Side};
use crate::region::Slice;
use crate::remote::{LaneKind, RemoteRegion};
use crate::{Completion, Done, Failure, Lane, Memory, Op, Pages, Region, Rights, Work};

const LIMIT: Duration = Duration::from_secs(30);
/// How many frames a lane takes in before they are received, over the tcp provider.
const PROMISED: u64 = 64;
/// Where no peer of ours has anything.
const NOWHERE: Remote = Remote { address: 0, key: 1 };
/// What is said to a rogue begins with this.
const TOKEN: u64 = 1;

/// An endpoint that says whatever it is told to.
struct Rogue {
    endpoint: Endpoint,
    out: Outgoing,
    /// What it receives, if it posts them, and those that something came into.
    slots: Slots,
    received: Vec<u32>,
}

impl Rogue {
    /// Speaks to this lane, as its peer or as one who does not know the token.
    fn new(shared: &Arc<Shared>, mut endpoint: Endpoint, to: &Offer, token: u64) -> Self {
        endpoint.connect(&Address::new(&to.address).unwrap()).unwrap();
        let out = Outgoing::new(&shared.device, 16, 2 * Slots::SIZE, token).unwrap();
        let slots = Slots::new(&shared.device, 2 * Slots::SPARE).unwrap();
        Rogue { endpoint, out, slots, received: Vec::new() }
    }

    /// Sends something with so many bytes behind it, while the lane moves too.
    fn send(&mut self, frame: Frame, bytes: usize, lane: &mut dyn Lane) -> Vec<Completion> {
        let (mut is_sent, mut done) = (false, Vec::new());
        let begun = Instant::now();
        while !is_sent || !self.out.is_empty() {
            assert!(begun.elapsed() < LIMIT, "{frame:?} does not get through");
            if !is_sent {
                let sent = self.out.send(frame, bytes, Use::Own, &self.endpoint);
                is_sent = sent.unwrap();
            }
            self.work();
            lane.poll(&mut done);
            if !done.is_empty() {
                break;
            }
        }
        done
    }

    /// Reads the peer's memory, while the lane moves too.
    fn read(&mut self, there: Remote, into: Slice, domain: &Domain, lane: &mut dyn Lane) {
        let mut pieces = Gather::new();
        assert!(pieces.add(&into, 0, into.len(), domain.shared().device.number()));
        let used = |reads| Use::Fetch { at: 0, reads };
        let begun = self.out.transfer(pieces, there, Direction::Read, used, &self.endpoint);
        assert_eq!(begun, Ok(true));
        let since = Instant::now();
        while !self.out.is_empty() {
            assert!(since.elapsed() < LIMIT, "{there:?} cannot be read");
            self.work();
            lane.poll(&mut Vec::new());
        }
    }

    fn work(&mut self) {
        let mut events = Vec::new();
        // The other end may be closed by now.
        let _ = self.endpoint.cq().read(&mut events);
        for event in events {
            if let Some(context) = self.out.contexts().index(event.context) {
                self.out.complete(context);
            }
            self.received
                .extend(self.slots.contexts().index(event.context).map(|slot| slot as u32));
        }
    }

    /// What the lane said since.
    fn receive(&mut self) -> Vec<Frame> {
        self.slots.post(&self.endpoint).unwrap();
        self.work();
        let received = std::mem::take(&mut self.received);
        received.iter().for_each(|slot| self.slots.free(*slot));
        let frame = |slot: &u32| opened(TOKEN, &self.slots.header(*slot)).unwrap().unwrap().1;
        received.iter().map(frame).collect()
    }
}

pub(super) fn open() -> Domain {
    open_with(Config::default())
}

fn open_with(config: Config) -> Domain {
    let choice = choose(&survey(None).unwrap(), Some("tcp")).unwrap();
    let address = Some([127, 0, 0, 1].into());
    Domain::open(&choice, Config { address, ..config }).unwrap()
}

/// A lane whose peer is a rogue.
fn against_a_rogue(domain: &Domain) -> (Box<dyn Lane>, Rogue) {
    let (shared, half) = (domain.shared(), domain.half(Side::Dial).unwrap());
    let endpoint = Endpoint::new(&shared.device, 64).unwrap();
    let theirs = Offer::from_bytes(&half.offer()).unwrap();
    let offer = Offer {
        token: TOKEN,
        home: Home { boot: [0; 16], space: 0, pid: 1 },
        address: endpoint.name().unwrap(),
        ..theirs.clone()
    };
    let lane = half.connect(&offer.to_bytes(), LIMIT).unwrap();
    (lane, Rogue::new(shared, endpoint, &theirs, theirs.token))
}

fn region(domain: &Domain) -> Region {
    let memory = Memory::allocate(4096, Pages::Plain).unwrap();
    domain.register(&memory, Rights::ALL).unwrap()
}

/// A send that its peer never receives comes back when the lane ends: flushed, where a time-out would say
/// something else.
fn assert_cut_off(done: Vec<Completion>, lane: &mut dyn Lane, rogue: &mut Rogue, what: &str) {
    let (begun, mut done) = (Instant::now(), done);
    while done.is_empty() {
        assert!(begun.elapsed() < LIMIT, "{what} is not noticed");
        rogue.work();
        lane.poll(&mut done);
    }
    assert_eq!(done[0].outcome, Err(Failure::Flushed), "{what}");
}

#[test]
fn a_protocol_error_ends_the_lane() {
    let domain = open();
    let from = region(&domain);
    let (id, imm) = (0, None);
    for (frame, bytes) in [
        (Frame::Answer { id: 0, old: Some(7) }, 0),
        (Frame::Data { id: 0 }, 8),
        (Frame::Message { id, total: 4, offset: 0, imm }, 8),
        (Frame::Message { id: 1 << 40, total: 8, offset: 0, imm }, 8),
        (Frame::Message { id, total: u64::MAX, offset: 0, imm }, 8),
        (Frame::Lying { id, total: 0, offset: 0, imm, from: NOWHERE }, 0),
        (Frame::Lying { id, total: 100, offset: 7, imm, from: NOWHERE }, 0),
        (Frame::Lying { id, total: PART as u64, offset: PART as u64, imm, from: NOWHERE }, 0),
        (Frame::Lying { id, total: 100, offset: PART as u64, imm, from: NOWHERE }, 0),
        (Frame::Lying { id, total: u64::MAX, offset: 0, imm, from: NOWHERE }, 0),
        (Frame::Lying { id, total: 100, offset: 0, imm, from: NOWHERE }, 8),
        (Frame::Taken { id: 9, offset: 0 }, 0),
        (Frame::Immediate { id: u64::MAX, length: 1, imm: 1 }, 0),
        (Frame::Get { id, key: 1, offset: 0, length: u64::MAX }, 0),
        (Frame::Doubt { id, key: 1 }, 8),
    ] {
        // Whether there is a receive that it could go into or not.
        for receives in 0..2 {
            let (mut lane, mut rogue) = against_a_rogue(&domain);
            let receive = (0..receives).map(|_| Op::receive(2, from.slice(8..)));
            let ops = std::iter::once(Op::send(1, from.slice(..8))).chain(receive);
            lane.post(&mut ops.collect());
            let done = rogue.send(frame, bytes, &mut *lane);
            assert_cut_off(done, &mut *lane, &mut rogue, &format!("{frame:?}, {receives}"));
        }
    }
    for progress in [
        Progress { arrived: 9, ..Progress::default() },
        Progress { arrived: 1, freed: 0, received: 9 },
        Progress { arrived: 0, freed: 1, received: 0 },
    ] {
        let (mut lane, mut rogue) = against_a_rogue(&domain);
        lane.post(&mut VecDeque::from([Op::send(1, from.slice(..8))]));
        rogue.out.set_progress(progress);
        let done = rogue.send(Frame::State, 0, &mut *lane);
        assert_cut_off(done, &mut *lane, &mut rogue, &format!("{progress:?}"));
    }
}

/// What a peer may not do is refused, and the lane goes on.
#[test]
fn keys_that_were_not_granted_are_of_no_use() {
    let domain = open();
    let secret = region(&domain);
    let (mut lane, mut rogue) = against_a_rogue(&domain);
    let change = Change::Add(1);
    for frame in [
        Frame::Change { id: 0, key: 1, offset: 0, change },
        Frame::Change { id: 1, key: 1, offset: u64::MAX, change },
        Frame::Put { id: 2, key: 1, offset: 0 },
        Frame::Doubt { id: 3, key: 1 },
    ] {
        let bytes = if matches!(frame, Frame::Put { .. }) { 64 } else { 0 };
        assert!(rogue.send(frame, bytes, &mut *lane).is_empty(), "{frame:?}");
    }
    assert_eq!(secret.memory().load(0), 0);
    lane.post(&mut VecDeque::from([Op::receive(1, secret.slice(..8))]));
    let message = Frame::Message { id: 0, total: 8, offset: 0, imm: Some(5) };
    let mut done = rogue.send(message, 8, &mut *lane);
    let begun = Instant::now();
    while done.is_empty() && begun.elapsed() < LIMIT {
        rogue.work();
        lane.poll(&mut done);
    }
    assert_eq!(done[0].outcome, Ok(Done::Received { length: 8, imm: Some(5) }));
}

/// Parts that lie with the peer count as frames do, until they are read.
#[test]
fn who_sends_more_than_was_promised_is_cut_off() {
    let domain = open();
    let from = region(&domain);
    let kinds: [fn(u64) -> (Frame, usize); 2] = [
        |id| (Frame::Message { id, total: 8, offset: 0, imm: None }, 8),
        |id| (Frame::Lying { id, total: 100, offset: 0, imm: None, from: NOWHERE }, 0),
    ];
    for numbered in kinds {
        let (mut lane, mut rogue) = against_a_rogue(&domain);
        lane.post(&mut VecDeque::from([Op::send(1, from.slice(..8))]));
        for id in 0..PROMISED {
            let (frame, bytes) = numbered(id);
            assert!(rogue.send(frame, bytes, &mut *lane).is_empty(), "{id} was promised");
        }
        let (frame, bytes) = numbered(PROMISED);
        let done = rogue.send(frame, bytes, &mut *lane);
        assert_cut_off(done, &mut *lane, &mut rogue, "one too many");
    }
}

/// As much of a long message as there is room for can be read where its frames say, and the rest follows.
#[test]
fn a_long_message_lies_in_parts_until_they_are_read() {
    const PLACES: usize = 2;
    let domain = open();
    let register = |length| {
        let memory = Memory::allocate(length, Pages::Plain).unwrap();
        domain.register(&memory, Rights::NONE).unwrap()
    };
    let (from, into) = (register(6 * PART), register(PART));
    (0..6).for_each(|part| from.memory().store(part * PART, 100 + part as u64));
    let (mut lane, mut rogue) = against_a_rogue(&domain);
    lane.post(&mut VecDeque::from([Op::send(1, from.slice(1..))]));
    let (begun, mut lying, mut done) = (Instant::now(), VecDeque::new(), Vec::new());
    for part in 0..6 {
        let places = (6 - part).min(PLACES);
        while lying.len() < places {
            assert!(begun.elapsed() < LIMIT && done.is_empty(), "{part}: {lying:?}, {done:?}");
            lying.extend(rogue.receive());
            lane.poll(&mut done);
        }
        assert_eq!(lying.len(), places, "no more than there is room for");
        let first = lying.pop_front().unwrap();
        let Frame::Lying { id: 0, total, offset, imm: None, from: there } = first else {
            panic!("{first:?}");
        };
        assert_eq!((total, offset), (6 * PART as u64 - 1, (part * PART) as u64));
        rogue.read(there, into.slice(..PART), &domain, &mut *lane);
        assert!(
            into.slice(..PART - 1).to_vec()
                == from.slice(part * PART + 1..(part + 1) * PART).to_vec()
        );
        let came = part as u64 + 1;
        rogue.out.set_progress(Progress { arrived: came, freed: came, received: 0 });
        rogue.send(Frame::Taken { id: 0, offset }, 0, &mut *lane);
    }
}

/// The peer says where a message lies, and it does not lie there.
#[test]
fn a_message_that_cannot_be_read_ends_the_lane() {
    let domain = open();
    let into = region(&domain);
    let (mut lane, mut rogue) = against_a_rogue(&domain);
    lane.post(&mut VecDeque::from([Op::receive(1, into.slice(..100))]));
    let lying = Frame::Lying { id: 0, total: 100, offset: 0, imm: None, from: NOWHERE };
    let (mut done, begun) = (rogue.send(lying, 0, &mut *lane), Instant::now());
    while done.is_empty() {
        assert!(begun.elapsed() < LIMIT, "it is waited for still");
        rogue.work();
        lane.poll(&mut done);
    }
    assert_eq!(done[0].outcome, Err(Failure::PeerGone));
}

/// The peer is gone before its message is read, and the lane sleeps.
#[test]
fn a_message_that_lies_with_a_peer_that_is_gone_is_not_waited_for_forever() {
    let domain = open_with(Config { timeout: Duration::from_millis(300), ..Config::default() });
    let into = region(&domain);
    let (mut lane, mut rogue) = against_a_rogue(&domain);
    let lying = Frame::Lying { id: 0, total: 100, offset: 0, imm: None, from: NOWHERE };
    assert!(rogue.send(lying, 0, &mut *lane).is_empty());
    let begun = Instant::now();
    while rogue.receive().is_empty() {
        assert!(begun.elapsed() < LIMIT, "the lane does not say that it came");
        assert_eq!(lane.poll(&mut Vec::new()), 0);
    }
    drop(rogue);
    lane.post(&mut VecDeque::from([Op::receive(1, into.slice(..100))]));
    let mut done = Vec::new();
    crate::wait(&mut *lane, &mut done, LIMIT);
    assert_eq!(done[0].outcome, Err(Failure::PeerGone));
}

/// What a peer does for others helps nobody whose own word never comes.
#[test]
fn an_operation_is_not_waited_for_forever_while_others_go_on() {
    let domain = open_with(Config { patience: Duration::from_millis(300), ..Config::default() });
    let from = region(&domain);
    for forgotten in [0, 1] {
        let (mut lane, mut rogue) = against_a_rogue(&domain);
        let (lane_kind, length, rights) = (LaneKind::Ofi, 64, Rights::ALL);
        let remote = RemoteRegion { lane: lane_kind, rights, length, address: 0, key: 1 };
        let window = lane.import(&remote).unwrap();
        let add = |token| {
            let work = Work::FetchAdd { old: from.slice(8..16), at: window.at(0), add: 1 };
            Op { token, work }
        };
        let first = if forgotten == 0 { Op::send(0, from.slice(..8)) } else { add(0) };
        lane.post(&mut VecDeque::from([first, add(1)]));
        let (mut came, mut done, begun) = (0, Vec::new(), Instant::now());
        let failed = loop {
            assert!(begun.elapsed() < LIMIT, "it is waited for still");
            for frame in rogue.receive().into_iter().filter(|frame| *frame != Frame::State) {
                came += 1;
                rogue.out.set_progress(Progress { arrived: came, freed: came - 1, received: 0 });
                if let Frame::Change { id, .. } = frame
                    && came > 1
                {
                    done.extend(rogue.send(Frame::Answer { id, old: Some(0) }, 0, &mut *lane));
                }
            }
            lane.poll(&mut done);
            match done.pop() {
                Some(Completion { outcome: Ok(_), .. }) => {
                    lane.post(&mut VecDeque::from([add(1)]));
                }
                Some(failed) => break failed,
                None => {}
            }
        };
        let why = done.iter().chain([&failed]).find(|one| one.token == 0).map(|one| one.outcome);
        assert_eq!(why, Some(Err(Failure::NotReady)), "{done:?}, {failed:?}");
    }
}

#[test]
fn unknown_peers_are_not_heard() {
    let domain = open();
    let (near, far) = (domain.half(Side::Dial).unwrap(), domain.half(Side::Accept).unwrap());
    let (to_far, to_near) = (near.offer(), far.offer());
    let mut near = near.connect(&to_near, LIMIT).unwrap();
    let mut far = far.connect(&to_far, LIMIT).unwrap();
    let endpoint = Endpoint::new(&domain.shared().device, 64).unwrap();
    let at = Offer::from_bytes(&to_far).unwrap();
    let mut unknown_peer = Rogue::new(domain.shared(), endpoint, &at, at.token ^ 1);
    let bye = Frame::Bye { failure: Failure::Flushed, id: None };
    for bytes in [0, 100, Slots::SIZE] {
        assert!(unknown_peer.send(bye, bytes, &mut *near).is_empty(), "{bytes}");
    }
    let (from, into) = (region(&domain), region(&domain));
    from.memory().store(0, 99);
    near.post(&mut VecDeque::from([Op::receive(1, into.slice(..8))]));
    far.post(&mut VecDeque::from([Op::send(2, from.slice(..8))]));
    let (mut done, mut sent, begun) = (Vec::new(), Vec::new(), Instant::now());
    while done.is_empty() || sent.is_empty() {
        assert!(begun.elapsed() < LIMIT, "{done:?}, {sent:?}");
        near.poll(&mut done);
        far.poll(&mut sent);
        unknown_peer.work();
    }
    assert_eq!(done[0].outcome, Ok(Done::Received { length: 8, imm: None }));
    assert_eq!((sent[0].outcome, into.memory().load(0)), (Ok(Done::Placed), 99));
}
