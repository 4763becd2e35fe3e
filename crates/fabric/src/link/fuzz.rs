//! A peer that sends arbitrary bytes: as a hello, on the control connection, and as messages on a lane.

use std::collections::{HashSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::config::Config;
use super::core::{Core, CoreSetup, MessageChannel};
use super::protocol::control::{Control, RailPlan, Transport};
use super::protocol::header::Header;
use super::protocol::hello::Hello;
use super::rails::PROBE_BYTES;
use super::rails::connector::{Connector, ConnectorTask, FabricOpener, TaskResult};
use crate::error::Error;
use crate::lane::{Caps, Lane, PrivateMemoryPath};
use crate::memory::{Memory, Pages};
use crate::op::{Completion, Done, Failure, Op, Work};
use crate::region::{Region, Rights};
use crate::remote::{AccessMethod, LaneKind, RemoteRegion, Window};
use crate::setup::{Fabric, Side, UnconnectedLane, register_software};
use crate::stats::Stats;

/// Hellos, control messages and headers: refused, or unchanged by encoding and decoding. Decoding removes control
/// characters from texts, so a decoded message is compared, not its bytes.
pub(crate) fn messages(bytes: &[u8]) {
    if let Some(hello) = Hello::parse(bytes) {
        assert_eq!(Hello::parse(&hello.to_bytes()).as_ref(), Some(&hello));
        assert!(hello.to_bytes().len() <= bytes.len());
    }
    if let Some(message) = Control::parse(bytes) {
        assert_eq!(Control::parse(&message.to_bytes()).as_ref(), Some(&message));
        assert!(message.to_bytes().len() <= bytes.len());
    }
    let mut first = [0; Header::MAX_BYTES];
    let there = bytes.len().min(Header::MAX_BYTES);
    first[..there].copy_from_slice(&bytes[..there]);
    if let Some((header, length)) = Header::parse(&first, bytes.len()) {
        assert_eq!(header.to_bytes().1, length);
        assert_eq!(header.to_bytes().0[..length], bytes[..length]);
    }
}

/// A link to such a peer. The first byte selects our end; then each item that the peer sends is prefixed by its
/// kind and its length.
pub(crate) fn peer(bytes: &[u8]) {
    let Some((first, mut script)) = bytes.split_first() else { return };
    let mut link = FuzzedLink::new(first & 1 == 0);
    link.bring_up();
    link.post();
    while let Some((&[kind, length], rest)) = script.split_first_chunk() {
        let (sent, rest) = rest.split_at(rest.len().min(usize::from(length)));
        script = rest;
        match kind % 4 {
            0 => link.script().control.push_back(sent.to_vec()),
            1 => link.script().messages.push_back(sent.to_vec()),
            // A well-formed message with arbitrary content.
            2 => {
                let mut message = vec![Header::VERSION];
                message.extend(sent);
                message.resize(message.len().max(Header::MIN_BYTES), 0);
                message[3] = 0;
                link.script().messages.push_back(message);
            }
            _ => link.now += Duration::from_millis(u64::from(length) * 10),
        }
        link.step();
    }
    link.end();
}

struct FuzzedLink {
    core: Core,
    script: Arc<Mutex<Script>>,
    now: Duration,
    own: Region,
    open: Region,
    done: Vec<Completion>,
}

/// What the peer will send.
#[derive(Default)]
struct Script {
    control: VecDeque<Vec<u8>>,
    messages: VecDeque<Vec<u8>>,
}

const REGION: u64 = 7 << 16;
const GENERATION: u32 = 1;

impl FuzzedLink {
    fn new(is_initiator: bool) -> Self {
        let script: Arc<Mutex<Script>> = Arc::default();
        let opener = Arc::new(MisbehavingPeer { script: script.clone() });
        let plans = if is_initiator { vec![plan()] } else { Vec::new() };
        let core = Core::new(CoreSetup {
            config: Config {
                message_slots: 4,
                max_payload: 256,
                depth: 16,
                max_regions: 8,
                ..Config::default()
            },
            is_initiator,
            epochs: [1, 2],
            peer_max_payload: 64,
            peer_max_regions: 16,
            channel: Box::new(MisbehavingPeer { script: script.clone() }),
            connector: Box::new(InlineConnector { opener, results: VecDeque::new() }),
            plans,
            can_plan_again: false,
            now: Duration::ZERO,
        });
        let [own, open] = [Rights::NONE, Rights::ALL].map(region);
        FuzzedLink { core, script, now: Duration::ZERO, own, open, done: Vec::new() }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        self.core.maintain(self.now);
        self.core.poll(self.now, &mut self.done);
    }

    fn steps(&mut self, count: usize) {
        (0..count).for_each(|_| self.step());
    }

    /// Brings the link up, as a well-behaved peer would.
    fn bring_up(&mut self) {
        self.steps(2);
        let (rail, generation) = (0, GENERATION);
        let key = RemoteRegion {
            lane: LaneKind::Sim,
            rights: Rights::ALL,
            length: PROBE_BYTES as u64,
            address: 0,
            key: 0,
        };
        let first = match self.core.rails().is_initiator() {
            true => Control::Opened { rail, generation, offer: Vec::new() },
            false => Control::Open { rail, generation, plan: plan(), offer: Vec::new() },
        };
        let messages = [
            first,
            Control::Connected { rail, generation, slots: [4, 4], probe: key },
            Control::Verified { rail, generation },
            Control::Key { rail, generation, region: REGION, key: Some(key) },
        ];
        for message in messages {
            self.script().control.push_back(message.to_bytes());
            self.steps(4);
        }
        assert!(!self.core.rails().active().is_empty(), "{}", self.core.rail_problems());
    }

    fn post(&mut self) {
        let remote = RemoteRegion {
            lane: LaneKind::Link,
            rights: Rights::ALL,
            length: 4096,
            address: 2,
            key: REGION.into(),
        };
        let window = self.core.import(&remote).expect("granted by the peer");
        self.core.grant(&self.open).expect("a row");
        let own = &self.own;
        let add = Work::FetchAdd { old: own.slice(400..408), at: window.at(0), add: 1 };
        let mut ops = VecDeque::from([
            Op::receive(0, own.slice(..100)),
            Op::receive(1, own.slice(100..100)),
            Op::receive(2, own.slice(100..400)),
            Op::read(3, own.slice(500..600), window.at(0)),
            Op::write_imm(4, own.slice(..64), window.at(0), 9),
            // More messages than the peer has slots.
            Op::send(5, own.slice(..1000)),
            Op::send(6, own.slice(..1000)),
            Op { op_id: 7, work: add },
        ]);
        self.core.post(&mut ops);
        assert!(ops.is_empty());
    }

    /// Every operation completes once, and no other memory was written.
    fn end(mut self) {
        self.core.close();
        self.steps(4);
        let mut seen = HashSet::new();
        for completion in &self.done {
            assert!(seen.insert(completion.op_id), "{} completed twice", completion.op_id);
        }
        assert_eq!(seen.len(), 8, "every operation completes");
        assert_eq!(self.own.slice(600..).to_vec(), [0; 4096 - 600], "memory of no operation");
    }
}

fn plan() -> RailPlan {
    let port_names = ["tcp".to_owned(), "tcp".to_owned()];
    RailPlan { transport: Transport::Tcp, port_names, weight: 1, why: String::new() }
}

fn region(rights: Rights) -> Region {
    register_software(&Memory::allocate(4096, Pages::Plain).expect("a page"), rights)
}

/// Runs every task immediately.
struct InlineConnector {
    opener: Arc<dyn FabricOpener>,
    results: VecDeque<TaskResult>,
}

impl Connector for InlineConnector {
    fn start(&mut self, task: ConnectorTask) {
        self.results.extend(task.run(&*self.opener));
    }

    fn finished(&mut self) -> Option<TaskResult> {
        self.results.pop_front()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The misbehaving peer: its connection, its fabric, its end of a lane.
#[derive(Clone)]
struct MisbehavingPeer {
    script: Arc<Mutex<Script>>,
}

impl MessageChannel for MisbehavingPeer {
    fn send(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<Vec<u8>>, String> {
        Ok(self.script.lock().unwrap_or_else(PoisonError::into_inner).control.pop_front())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn wants_to_write(&self) -> bool {
        false
    }
}

impl FabricOpener for MisbehavingPeer {
    fn open(&self, _: Transport, _: &str) -> Result<Arc<dyn Fabric>, Error> {
        Ok(Arc::new(self.clone()))
    }

    fn release_broken(&self, _: Transport, _: &str) {}
}

impl Fabric for MisbehavingPeer {
    fn register(&self, memory: &Memory, rights: Rights) -> Result<Region, Error> {
        Ok(register_software(memory, rights))
    }

    fn prepare_lane(&self, _: Side) -> Result<Box<dyn UnconnectedLane>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl UnconnectedLane for MisbehavingPeer {
    fn offer(&self) -> Vec<u8> {
        Vec::new()
    }

    fn connect(self: Box<Self>, _: &[u8], _: Duration) -> Result<Box<dyn Lane>, Error> {
        Ok(Box::new(MisbehavingLane {
            script: self.script,
            caps: CAPS,
            number: crate::lane::next_lane_id(),
            stats: Arc::default(),
            receives: VecDeque::new(),
            done: Vec::new(),
            written: Vec::new(),
            closed: false,
        }))
    }
}

/// Accepts all operations, and delivers what the peer sends.
struct MisbehavingLane {
    script: Arc<Mutex<Script>>,
    caps: Caps,
    number: u64,
    stats: Arc<Stats>,
    receives: VecDeque<Op>,
    done: Vec<Completion>,
    /// The bytes written last, returned by reads.
    written: Vec<u8>,
    closed: bool,
}

impl MisbehavingLane {
    fn take(&mut self, op: Op) {
        let outcome = match &op.work {
            _ if self.closed => Err(Failure::Flushed),
            Work::Receive { .. } => return self.receives.push_back(op),
            Work::Write { from, .. } => {
                self.written = from.as_slice().iter().flat_map(|slice| slice.to_vec()).collect();
                Ok(Done::Placed)
            }
            Work::Read { into, .. } => {
                for slice in into.as_slice() {
                    let length = slice.len().min(self.written.len());
                    slice.region().memory().write(slice.offset(), &self.written[..length]);
                }
                Ok(Done::Placed)
            }
            _ => Ok(Done::Placed),
        };
        self.done.push(Completion { op_id: op.op_id, outcome, work: op.work });
    }

    fn deliver(&mut self) {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.receives.is_empty()
            && let Some(message) = script.messages.pop_front()
            && let Some(receive) = self.receives.pop_front()
        {
            let Work::Receive { into } = &receive.work else { continue };
            let [slot] = into.as_slice() else { continue };
            let length = message.len().min(slot.len());
            slot.region().memory().write(slot.offset(), &message[..length]);
            let outcome = Ok(Done::Received { length, imm: None });
            self.done.push(Completion { op_id: receive.op_id, outcome, work: receive.work });
        }
    }
}

impl Lane for MisbehavingLane {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    fn grant(&mut self, region: &Region) -> Result<RemoteRegion, Error> {
        let (rights, length) = (region.rights(), region.len() as u64);
        Ok(RemoteRegion { lane: LaneKind::Sim, rights, length, address: 0, key: 0 })
    }

    fn import(&mut self, remote: &RemoteRegion) -> Result<Window, Error> {
        let access_method = AccessMethod::Request { key: remote.key };
        Ok(Window::new(self.number, remote.length, remote.rights, access_method))
    }

    fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        let count = ops.len();
        ops.drain(..).collect::<Vec<_>>().into_iter().for_each(|op| self.take(op));
        count
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        if !self.closed {
            self.deliver();
        }
        let count = self.done.len();
        done.append(&mut self.done);
        count
    }

    fn arm(&mut self) -> bool {
        false
    }

    fn fd(&self) -> BorrowedFd<'_> {
        unreachable!("this test never sleeps")
    }

    fn close(&mut self) {
        self.closed = true;
        for op in std::mem::take(&mut self.receives) {
            let outcome = Err(Failure::Flushed);
            self.done.push(Completion { op_id: op.op_id, outcome, work: op.work });
        }
    }
}

const CAPS: Caps = Caps {
    transport: "misbehaving",
    datagram: false,
    ordered: true,
    max_message: 1 << 20,
    max_slices: 16,
    depth: 64,
    receives: 256,
    inline: 0,
    peer_must_poll: false,
    private_memory: PrivateMemoryPath::Direct,
    spins: false,
    wakes_by_timer: false,
    rdma: false,
};
