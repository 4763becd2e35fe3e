//! Tests with peers that violate the protocol, and unknown peers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::av::Address;
use super::config::Config;
use super::domain::{Domain, Shared};
use super::endpoint::{Direction, Endpoint, Remote};
use super::frame::{AtomicOp, FRAGMENT_BYTES, Frame, Progress, decode_frame};
use super::gather::Gather;
use super::offer::Offer;
use super::outgoing::{ContextUse, Outgoing};
use super::peer_process::ProcessId;
use super::slots::Slots;
use super::{choose, list_providers};
use crate::region::Slice;
use crate::remote::{LaneKind, RemoteRegion};
use crate::setup::{Fabric, Side};
use crate::{Completion, Done, Failure, Lane, Memory, Op, Pages, Region, Rights, Work};

const LIMIT: Duration = Duration::from_secs(30);
/// The number of frames that a lane buffers before they are received, over the tcp provider.
const PEER_BUFFERS: u64 = 64;
/// An address and key that are not registered.
const UNREGISTERED: Remote = Remote { address: 0, key: 1 };
/// The secret of frames to the misbehaving peer.
const SECRET: u64 = 1;

/// An endpoint that sends arbitrary frames.
struct MisbehavingPeer {
    endpoint: Endpoint,
    out: Outgoing,
    /// Its receive buffers, if it posts them, and those that received something.
    slots: Slots,
    received: Vec<u32>,
}

impl MisbehavingPeer {
    /// Sends to this lane, as its peer or with another secret.
    fn new(shared: &Arc<Shared>, mut endpoint: Endpoint, to: &Offer, secret: u64) -> Self {
        endpoint.connect(&Address::new(&to.address).unwrap()).unwrap();
        let out = Outgoing::new(&shared.fid_domain, 16, 2 * Slots::SLOT_BYTES, secret).unwrap();
        let slots = Slots::new(&shared.fid_domain, 2 * Slots::SPARE_SLOTS).unwrap();
        MisbehavingPeer { endpoint, out, slots, received: Vec::new() }
    }

    /// Sends a frame with a payload of `bytes` bytes, while polling the lane.
    fn send(&mut self, frame: Frame, bytes: usize, lane: &mut dyn Lane) -> Vec<Completion> {
        let (mut is_sent, mut done) = (false, Vec::new());
        let started = Instant::now();
        while !is_sent || !self.out.is_empty() {
            assert!(started.elapsed() < LIMIT, "{frame:?} is not delivered");
            if !is_sent {
                let sent = self.out.send(frame, bytes, ContextUse::Control, &self.endpoint);
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

    /// Reads the peer's memory, while polling the lane.
    fn read(&mut self, there: Remote, into: Slice, domain: &Domain, lane: &mut dyn Lane) {
        let mut gather = Gather::new();
        assert!(gather.add(&into, 0, into.len(), domain.shared().fid_domain.number()));
        let used = |reads| ContextUse::Fetch { at: 0, reads };
        let started = self.out.transfer(gather, there, Direction::Read, used, &self.endpoint);
        assert_eq!(started, Ok(true));
        let since = Instant::now();
        while !self.out.is_empty() {
            assert!(since.elapsed() < LIMIT, "{there:?} cannot be read");
            self.work();
            lane.poll(&mut Vec::new());
        }
    }

    fn work(&mut self) {
        let mut events = Vec::new();
        // The other end may be closed.
        let _ = self.endpoint.cq().read(&mut events);
        for event in events {
            if let Some(context) = self.out.contexts().index(event.context) {
                self.out.complete(context);
            }
            self.received
                .extend(self.slots.contexts().index(event.context).map(|slot| slot as u32));
        }
    }

    /// The frames that the lane has sent since the last call.
    fn receive(&mut self) -> Vec<Frame> {
        self.slots.post(&self.endpoint).unwrap();
        self.work();
        let received = std::mem::take(&mut self.received);
        received.iter().for_each(|slot| self.slots.free(*slot));
        let frame =
            |slot: &u32| decode_frame(SECRET, &self.slots.header(*slot)).unwrap().unwrap().1;
        received.iter().map(frame).collect()
    }
}

pub(super) fn open() -> Domain {
    open_with(Config::default())
}

fn open_with(config: Config) -> Domain {
    let choice = choose(&list_providers(None).unwrap(), Some("tcp")).unwrap();
    let address = Some([127, 0, 0, 1].into());
    Domain::open(&choice, Config { address, ..config }).unwrap()
}

/// A lane whose peer misbehaves.
fn against_misbehaving_peer(domain: &Domain) -> (Box<dyn Lane>, MisbehavingPeer) {
    let (shared, unconnected) = (domain.shared(), domain.prepare_lane(Side::Dial).unwrap());
    let endpoint = Endpoint::new(&shared.fid_domain, 64).unwrap();
    let theirs = Offer::from_bytes(&unconnected.offer()).unwrap();
    let offer = Offer {
        secret: SECRET,
        process: ProcessId { boot: [0; 16], pid_namespace: 0, pid: 1 },
        address: endpoint.name().unwrap(),
        ..theirs.clone()
    };
    let lane = unconnected.connect(&offer.to_bytes(), LIMIT).unwrap();
    (lane, MisbehavingPeer::new(shared, endpoint, &theirs, theirs.secret))
}

fn region(domain: &Domain) -> Region {
    let memory = Memory::allocate(4096, Pages::Plain).unwrap();
    domain.register(&memory, Rights::ALL).unwrap()
}

/// Checks that the lane ends: a send that its peer never receives is flushed; after a timeout it would fail with
/// another reason.
fn assert_lane_ends(
    done: Vec<Completion>,
    lane: &mut dyn Lane,
    peer: &mut MisbehavingPeer,
    what: &str,
) {
    let (started, mut done) = (Instant::now(), done);
    while done.is_empty() {
        assert!(started.elapsed() < LIMIT, "{what} is not detected");
        peer.work();
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
        (Frame::Reply { id: 0, old: Some(7) }, 0),
        (Frame::Data { id: 0 }, 8),
        (Frame::Message { id, total: 4, offset: 0, imm }, 8),
        (Frame::Message { id: 1 << 40, total: 8, offset: 0, imm }, 8),
        (Frame::Message { id, total: u64::MAX, offset: 0, imm }, 8),
        (Frame::Rendezvous { id, total: 0, offset: 0, imm, from: UNREGISTERED }, 0),
        (Frame::Rendezvous { id, total: 100, offset: 7, imm, from: UNREGISTERED }, 0),
        (
            Frame::Rendezvous {
                id,
                total: FRAGMENT_BYTES as u64,
                offset: FRAGMENT_BYTES as u64,
                imm,
                from: UNREGISTERED,
            },
            0,
        ),
        (
            Frame::Rendezvous {
                id,
                total: 100,
                offset: FRAGMENT_BYTES as u64,
                imm,
                from: UNREGISTERED,
            },
            0,
        ),
        (Frame::Rendezvous { id, total: u64::MAX, offset: 0, imm, from: UNREGISTERED }, 0),
        (Frame::Rendezvous { id, total: 100, offset: 0, imm, from: UNREGISTERED }, 8),
        (Frame::FragmentRead { id: 9, offset: 0 }, 0),
        (Frame::Immediate { id: u64::MAX, length: 1, imm: 1 }, 0),
        (Frame::Get { id, key: 1, offset: 0, length: u64::MAX }, 0),
        (Frame::CheckKey { id, key: 1 }, 8),
    ] {
        // With and without a posted receive.
        for receives in 0..2 {
            let (mut lane, mut peer) = against_misbehaving_peer(&domain);
            let receive = (0..receives).map(|_| Op::receive(2, from.slice(8..)));
            let ops = std::iter::once(Op::send(1, from.slice(..8))).chain(receive);
            lane.post(&mut ops.collect());
            let done = peer.send(frame, bytes, &mut *lane);
            assert_lane_ends(done, &mut *lane, &mut peer, &format!("{frame:?}, {receives}"));
        }
    }
    for progress in [
        Progress { arrived: 9, ..Progress::default() },
        Progress { arrived: 1, freed: 0, received: 9 },
        Progress { arrived: 0, freed: 1, received: 0 },
    ] {
        let (mut lane, mut peer) = against_misbehaving_peer(&domain);
        lane.post(&mut VecDeque::from([Op::send(1, from.slice(..8))]));
        peer.out.set_progress(progress);
        let done = peer.send(Frame::ProgressOnly, 0, &mut *lane);
        assert_lane_ends(done, &mut *lane, &mut peer, &format!("{progress:?}"));
    }
}

/// Requests with invalid keys are refused, and the lane continues.
#[test]
fn keys_that_were_not_granted_are_refused() {
    let domain = open();
    let local = region(&domain);
    let (mut lane, mut peer) = against_misbehaving_peer(&domain);
    let op = AtomicOp::Add(1);
    for frame in [
        Frame::Atomic { id: 0, key: 1, offset: 0, op },
        Frame::Atomic { id: 1, key: 1, offset: u64::MAX, op },
        Frame::Put { id: 2, key: 1, offset: 0 },
        Frame::CheckKey { id: 3, key: 1 },
    ] {
        let bytes = if matches!(frame, Frame::Put { .. }) { 64 } else { 0 };
        assert!(peer.send(frame, bytes, &mut *lane).is_empty(), "{frame:?}");
    }
    assert_eq!(local.memory().load(0), 0);
    lane.post(&mut VecDeque::from([Op::receive(1, local.slice(..8))]));
    let message = Frame::Message { id: 0, total: 8, offset: 0, imm: Some(5) };
    let mut done = peer.send(message, 8, &mut *lane);
    let started = Instant::now();
    while done.is_empty() && started.elapsed() < LIMIT {
        peer.work();
        lane.poll(&mut done);
    }
    assert_eq!(done[0].outcome, Ok(Done::Received { length: 8, imm: Some(5) }));
}

/// Fragments in the peer's rendezvous buffers use credit until they are read.
#[test]
fn exceeding_the_credit_ends_the_lane() {
    let domain = open();
    let from = region(&domain);
    let kinds: [fn(u64) -> (Frame, usize); 2] = [
        |id| (Frame::Message { id, total: 8, offset: 0, imm: None }, 8),
        |id| (Frame::Rendezvous { id, total: 100, offset: 0, imm: None, from: UNREGISTERED }, 0),
    ];
    for numbered in kinds {
        let (mut lane, mut peer) = against_misbehaving_peer(&domain);
        lane.post(&mut VecDeque::from([Op::send(1, from.slice(..8))]));
        for id in 0..PEER_BUFFERS {
            let (frame, bytes) = numbered(id);
            assert!(peer.send(frame, bytes, &mut *lane).is_empty(), "{id} is within the credit");
        }
        let (frame, bytes) = numbered(PEER_BUFFERS);
        let done = peer.send(frame, bytes, &mut *lane);
        assert_lane_ends(done, &mut *lane, &mut peer, "one frame too many");
    }
}

/// The first fragments of a long message can be read as soon as they are announced, and the others follow.
#[test]
fn a_long_message_is_buffered_in_parts_until_they_are_read() {
    const BUFFERED_FRAGMENTS: usize = 2;
    let domain = open();
    let register = |length| {
        let memory = Memory::allocate(length, Pages::Plain).unwrap();
        domain.register(&memory, Rights::NONE).unwrap()
    };
    let (from, into) = (register(6 * FRAGMENT_BYTES), register(FRAGMENT_BYTES));
    (0..6)
        .for_each(|fragment| from.memory().store(fragment * FRAGMENT_BYTES, 100 + fragment as u64));
    let (mut lane, mut peer) = against_misbehaving_peer(&domain);
    lane.post(&mut VecDeque::from([Op::send(1, from.slice(1..))]));
    let (started, mut fragments, mut done) = (Instant::now(), VecDeque::new(), Vec::new());
    for fragment in 0..6 {
        let buffered = (6 - fragment).min(BUFFERED_FRAGMENTS);
        while fragments.len() < buffered {
            assert!(
                started.elapsed() < LIMIT && done.is_empty(),
                "{fragment}: {fragments:?}, {done:?}"
            );
            fragments.extend(peer.receive());
            lane.poll(&mut done);
        }
        assert_eq!(fragments.len(), buffered, "no more than there are buffers");
        let first = fragments.pop_front().unwrap();
        let Frame::Rendezvous { id: 0, total, offset, imm: None, from: there } = first else {
            panic!("{first:?}");
        };
        assert_eq!(
            (total, offset),
            (6 * FRAGMENT_BYTES as u64 - 1, (fragment * FRAGMENT_BYTES) as u64)
        );
        peer.read(there, into.slice(..FRAGMENT_BYTES), &domain, &mut *lane);
        assert!(
            into.slice(..FRAGMENT_BYTES - 1).to_vec()
                == from
                    .slice(fragment * FRAGMENT_BYTES + 1..(fragment + 1) * FRAGMENT_BYTES)
                    .to_vec()
        );
        let arrived = fragment as u64 + 1;
        peer.out.set_progress(Progress { arrived, freed: arrived, received: 0 });
        peer.send(Frame::FragmentRead { id: 0, offset }, 0, &mut *lane);
    }
}

/// The peer announces a message at an address that cannot be read.
#[test]
fn a_message_that_cannot_be_read_ends_the_lane() {
    let domain = open();
    let into = region(&domain);
    let (mut lane, mut peer) = against_misbehaving_peer(&domain);
    lane.post(&mut VecDeque::from([Op::receive(1, into.slice(..100))]));
    let fragments =
        Frame::Rendezvous { id: 0, total: 100, offset: 0, imm: None, from: UNREGISTERED };
    let (mut done, started) = (peer.send(fragments, 0, &mut *lane), Instant::now());
    while done.is_empty() {
        assert!(started.elapsed() < LIMIT, "no timeout");
        peer.work();
        lane.poll(&mut done);
    }
    assert_eq!(done[0].outcome, Err(Failure::PeerGone));
}

/// The peer ends before its message is read, while the lane sleeps.
#[test]
fn reading_a_message_from_a_peer_that_has_ended_times_out() {
    let domain = open_with(Config { timeout: Duration::from_millis(300), ..Config::default() });
    let into = region(&domain);
    let (mut lane, mut peer) = against_misbehaving_peer(&domain);
    let fragments =
        Frame::Rendezvous { id: 0, total: 100, offset: 0, imm: None, from: UNREGISTERED };
    assert!(peer.send(fragments, 0, &mut *lane).is_empty());
    let started = Instant::now();
    while peer.receive().is_empty() {
        assert!(started.elapsed() < LIMIT, "the lane does not report the arrival");
        assert_eq!(lane.poll(&mut Vec::new()), 0);
    }
    drop(peer);
    lane.post(&mut VecDeque::from([Op::receive(1, into.slice(..100))]));
    let mut done = Vec::new();
    crate::wait(&mut *lane, &mut done, LIMIT);
    assert_eq!(done[0].outcome, Err(Failure::PeerGone));
}

/// Progress of other operations does not extend the timeout of an operation without a reply.
#[test]
fn an_operation_times_out_while_others_progress() {
    let domain =
        open_with(Config { receive_timeout: Duration::from_millis(300), ..Config::default() });
    let from = region(&domain);
    for forgotten in [0, 1] {
        let (mut lane, mut peer) = against_misbehaving_peer(&domain);
        let (lane_kind, length, rights) = (LaneKind::Ofi, 64, Rights::ALL);
        let remote = RemoteRegion { lane: lane_kind, rights, length, address: 0, key: 1 };
        let window = lane.import(&remote).unwrap();
        let add = |op_id| {
            let work = Work::FetchAdd { old: from.slice(8..16), at: window.at(0), add: 1 };
            Op { op_id, work }
        };
        let first = if forgotten == 0 { Op::send(0, from.slice(..8)) } else { add(0) };
        lane.post(&mut VecDeque::from([first, add(1)]));
        let (mut arrived, mut done, started) = (0, Vec::new(), Instant::now());
        let failed = loop {
            assert!(started.elapsed() < LIMIT, "no timeout");
            for frame in peer.receive().into_iter().filter(|frame| *frame != Frame::ProgressOnly) {
                arrived += 1;
                peer.out.set_progress(Progress { arrived, freed: arrived - 1, received: 0 });
                if let Frame::Atomic { id, .. } = frame
                    && arrived > 1
                {
                    done.extend(peer.send(Frame::Reply { id, old: Some(0) }, 0, &mut *lane));
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
        let why = done.iter().chain([&failed]).find(|one| one.op_id == 0).map(|one| one.outcome);
        assert_eq!(why, Some(Err(Failure::NotReady)), "{done:?}, {failed:?}");
    }
}

#[test]
fn frames_of_unknown_peers_are_ignored() {
    let domain = open();
    let (near, far) =
        (domain.prepare_lane(Side::Dial).unwrap(), domain.prepare_lane(Side::Accept).unwrap());
    let (to_far, to_near) = (near.offer(), far.offer());
    let mut near = near.connect(&to_near, LIMIT).unwrap();
    let mut far = far.connect(&to_far, LIMIT).unwrap();
    let endpoint = Endpoint::new(&domain.shared().fid_domain, 64).unwrap();
    let at = Offer::from_bytes(&to_far).unwrap();
    let mut unknown_peer = MisbehavingPeer::new(domain.shared(), endpoint, &at, at.secret ^ 1);
    let close = Frame::Close { failure: Failure::Flushed, id: None };
    for bytes in [0, 100, Slots::SLOT_BYTES] {
        assert!(unknown_peer.send(close, bytes, &mut *near).is_empty(), "{bytes}");
    }
    let (from, into) = (region(&domain), region(&domain));
    from.memory().store(0, 99);
    near.post(&mut VecDeque::from([Op::receive(1, into.slice(..8))]));
    far.post(&mut VecDeque::from([Op::send(2, from.slice(..8))]));
    let (mut done, mut sent, started) = (Vec::new(), Vec::new(), Instant::now());
    while done.is_empty() || sent.is_empty() {
        assert!(started.elapsed() < LIMIT, "{done:?}, {sent:?}");
        near.poll(&mut done);
        far.poll(&mut sent);
        unknown_peer.work();
    }
    assert_eq!(done[0].outcome, Ok(Done::Received { length: 8, imm: None }));
    assert_eq!((sent[0].outcome, into.memory().load(0)), (Ok(Done::Placed), 99));
}
