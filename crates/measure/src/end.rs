//! One end of a measurement: lanes, and memory for them.

use std::collections::VecDeque;
use std::time::Duration;

use fabric::{
    Completion, Fabric, Lane, Memory, Op, Pages, Region, RemoteRegion, Rights, Side, Window, Work,
};

use crate::control_connection::{ControlConnection, STEP_TIMEOUT, unexpected};
use crate::message::{Bytes, Message};
use crate::{Error, pattern};
use report::{Operation, Plan, Test};

/// One connected end.
pub(crate) struct End {
    pub(crate) test_lanes: Vec<TestLane>,
    memory: Memories,
}

/// A lane, and its memory.
pub(crate) struct TestLane {
    pub(crate) lane: Box<dyn Lane>,
    /// The source of sends and writes.
    pub(crate) source: Region,
    /// The memory that the other end writes and reads, and the destination of our receives and reads.
    pub(crate) target: Region,
    /// The other end's target; `None` for datagrams.
    pub(crate) window: Option<Window>,
    /// Reused, so that polling does not allocate.
    pub(crate) done: Vec<Completion>,
}

struct Memories {
    source: Memory,
    target: Memory,
}

impl End {
    /// Connects the lanes, together with the other end; the dialling end sends first.
    pub(crate) fn connect(
        control: &mut ControlConnection,
        fabrics: &[Box<dyn Fabric>],
        plan: &Plan,
        side: Side,
    ) -> Result<End, Error> {
        let memory = Memories::new(plan, side)?;
        let each = fabrics.iter().flat_map(|fabric| (0..plan.lanes).map(move |_| fabric));
        let unconnected = each.clone().map(|fabric| fabric.prepare_lane(side));
        let unconnected = unconnected.collect::<Result<Vec<_>, _>>()?;
        let offers = unconnected.iter().map(|lane| Bytes(lane.offer())).collect();
        let offers = match exchange(control, Message::Offers(offers), side)? {
            Message::Offers(offers) if offers.len() == unconnected.len() => offers,
            other => return Err(unexpected(&other)),
        };
        let mut regions = Vec::new();
        for fabric in fabrics {
            regions.push((
                fabric.register(&memory.source, Rights::NONE)?,
                fabric.register(&memory.target, Rights::ALL)?,
            ));
        }
        let mut test_lanes = Vec::new();
        for (at, (lane, offer)) in unconnected.into_iter().zip(&offers).enumerate() {
            let lane = lane.connect(&offer.0, CONNECT_TIMEOUT)?;
            let (source, target) = regions[at / plan.lanes as usize].clone();
            test_lanes.push(TestLane { lane, source, target, window: None, done: Vec::new() });
        }
        let mut end = End { test_lanes, memory };
        if !plan.datagrams {
            end.grant(control, side)?;
        }
        Ok(end)
    }

    fn grant(&mut self, control: &mut ControlConnection, side: Side) -> Result<(), Error> {
        let mut grants = Vec::new();
        for test_lane in &mut self.test_lanes {
            grants.push(Bytes(test_lane.lane.grant(&test_lane.target)?.to_bytes().to_vec()));
        }
        let grants = match exchange(control, Message::Grants(grants), side)? {
            Message::Grants(grants) if grants.len() == self.test_lanes.len() => grants,
            other => return Err(unexpected(&other)),
        };
        for (test_lane, grant) in self.test_lanes.iter_mut().zip(&grants) {
            test_lane.window = Some(test_lane.lane.import(&RemoteRegion::from_bytes(&grant.0)?)?);
        }
        Ok(())
    }

    /// Whether the first slots of the target have the correct bytes.
    pub(crate) fn is_verified(&self, plan: &Plan, used_slots: usize) -> bool {
        let used_slots = used_slots.min(plan.slots());
        pattern::is_present(
            &self.memory.target,
            plan.size as usize,
            plan.stride() as usize,
            used_slots,
        )
    }
}

impl Memories {
    /// Prefaulted, so that there are no page faults during the measurement. Reads read the target of the server's
    /// end.
    fn new(plan: &Plan, side: Side) -> Result<Memories, Error> {
        let (size, stride, slots) = (plan.size as usize, plan.stride() as usize, plan.slots());
        let allocate = || -> Result<Memory, Error> {
            let memory = Memory::allocate(stride * slots, Pages::Auto)?;
            memory.prefault(1, |_| ())?;
            Ok(memory)
        };
        let memory = Memories { source: allocate()?, target: allocate()? };
        pattern::fill(&memory.source, size, stride, slots);
        if plan.operation == Operation::Read && side == Side::Accept {
            pattern::fill(&memory.target, size, stride, slots);
        }
        Ok(memory)
    }
}

impl TestLane {
    /// The operation of a slot.
    pub(crate) fn op(&self, plan: &Plan, slot: usize) -> Result<Op, Error> {
        let op_id = slot as u64;
        let offset = slot % plan.slots() * plan.stride() as usize + padding(plan);
        let range = offset..offset + plan.size as usize;
        if plan.operation == Operation::Send {
            return Ok(Op::send(op_id, self.source.slice(range)));
        }
        let window =
            self.window.as_ref().ok_or_else(|| Error::misuse("datagrams can only be sent"))?;
        let there = window.at(offset as u64);
        Ok(match plan.operation {
            Operation::Read => Op::read(op_id, self.target.slice(range), there),
            Operation::Atomic => {
                let old = self.source.slice(range);
                Op { op_id, work: Work::FetchAdd { old, at: there, add: 1 } }
            }
            Operation::Write | Operation::Send => Op::write(op_id, self.source.slice(range), there),
        })
    }

    /// Posts receives: twice as many as the other end has messages in flight.
    pub(crate) fn post_receives(&mut self, plan: &Plan) {
        let count = self.lane.caps().receives.min(2 * plan.depth as usize);
        let offsets = (0..count).map(|slot| slot % plan.slots() * plan.stride() as usize);
        let mut ops: VecDeque<Op> = offsets
            .map(|at| Op::receive(RECEIVE, self.target.slice(at..at + plan.stride() as usize)))
            .collect();
        self.lane.post(&mut ops);
    }

    /// Polls; a failed operation is an error.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<&mut Vec<Completion>, Error> {
        self.lane.poll(&mut self.done);
        match self.done.iter().find_map(|completion| completion.outcome.err()) {
            None => Ok(&mut self.done),
            Some(failure) => Err(failure.into()),
        }
    }
}

/// The offset of a message in its slot: its last eight bytes must be aligned, if their change shows
/// that it arrived.
pub(crate) fn padding(plan: &Plan) -> usize {
    match (plan.test, plan.operation) {
        (Test::Latency, Operation::Write) => (8 - plan.size as usize % 8) % 8,
        _ => 0,
    }
}

/// Sends our message and receives the other end's; the dialling end sends first.
pub(crate) fn exchange(
    control: &mut ControlConnection,
    ours: Message,
    side: Side,
) -> Result<Message, Error> {
    if side == Side::Dial {
        control.send(&ours)?;
        return control.receive(STEP_TIMEOUT);
    }
    let theirs = control.receive(STEP_TIMEOUT)?;
    control.send(&ours)?;
    Ok(theirs)
}

/// The `op_id` of receives, which no slot has.
pub(crate) const RECEIVE: u64 = u64::MAX;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
