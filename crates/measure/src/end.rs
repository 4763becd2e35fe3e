//! One end of a measurement: lanes, and memory for them.

use std::collections::VecDeque;
use std::time::Duration;

use fabric::{
    Completion, Fabric, Lane, Memory, Op, Pages, Region, RemoteRegion, Rights, Side, Window, Work,
};

use crate::control_channel::{ControlChannel, PATIENCE, out_of_turn};
use crate::message::{Bytes, Message};
use crate::{Error, pattern};
use report::{Operation, Plan, Test};

/// One end, connected.
pub(crate) struct End {
    pub(crate) tracks: Vec<Track>,
    memory: Memories,
}

/// A lane, and what goes over it.
pub(crate) struct Track {
    pub(crate) lane: Box<dyn Lane>,
    /// What is sent from here.
    pub(crate) source: Region,
    /// What the other end writes and reads, and where messages and reads of ours land.
    pub(crate) target: Region,
    /// The other end's target; datagrams have none.
    pub(crate) window: Option<Window>,
    /// So that polling needs no allocation.
    pub(crate) done: Vec<Completion>,
}

struct Memories {
    source: Memory,
    target: Memory,
}

impl End {
    /// Makes the lanes, both ends at once; who dials speaks first.
    pub(crate) fn connect(
        talk: &mut ControlChannel,
        fabrics: &[Box<dyn Fabric>],
        plan: &Plan,
        side: Side,
    ) -> Result<End, Error> {
        let memory = Memories::new(plan, side)?;
        let each = fabrics.iter().flat_map(|fabric| (0..plan.lanes).map(move |_| fabric));
        let halves = each.clone().map(|fabric| fabric.prepare_lane(side));
        let halves = halves.collect::<Result<Vec<_>, _>>()?;
        let offers = halves.iter().map(|half| Bytes(half.offer())).collect();
        let offers = match exchange(talk, Message::Offers(offers), side)? {
            Message::Offers(offers) if offers.len() == halves.len() => offers,
            other => return Err(out_of_turn(&other)),
        };
        let mut regions = Vec::new();
        for fabric in fabrics {
            regions.push((
                fabric.register(&memory.source, Rights::NONE)?,
                fabric.register(&memory.target, Rights::ALL)?,
            ));
        }
        let mut tracks = Vec::new();
        for (at, (half, offer)) in halves.into_iter().zip(&offers).enumerate() {
            let lane = half.connect(&offer.0, CONNECT)?;
            let (source, target) = regions[at / plan.lanes as usize].clone();
            tracks.push(Track { lane, source, target, window: None, done: Vec::new() });
        }
        let mut end = End { tracks, memory };
        if !plan.datagrams {
            end.grant(talk, side)?;
        }
        Ok(end)
    }

    fn grant(&mut self, talk: &mut ControlChannel, side: Side) -> Result<(), Error> {
        let mut grants = Vec::new();
        for track in &mut self.tracks {
            grants.push(Bytes(track.lane.grant(&track.target)?.to_bytes().to_vec()));
        }
        let grants = match exchange(talk, Message::Grants(grants), side)? {
            Message::Grants(grants) if grants.len() == self.tracks.len() => grants,
            other => return Err(out_of_turn(&other)),
        };
        for (track, grant) in self.tracks.iter_mut().zip(&grants) {
            track.window = Some(track.lane.import(&RemoteRegion::from_bytes(&grant.0)?)?);
        }
        Ok(())
    }

    /// Whether the first places of what arrived here have the right bytes.
    pub(crate) fn is_right(&self, plan: &Plan, touched: usize) -> bool {
        let touched = touched.min(plan.slots());
        pattern::is_there(&self.memory.target, plan.size as usize, plan.stride() as usize, touched)
    }
}

impl Memories {
    /// In memory already, so that no page is missed while time is taken. What is read lies in the target of the end that is
    /// asked.
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

impl Track {
    /// The operation of a place.
    pub(crate) fn op(&self, plan: &Plan, place: usize) -> Result<Op, Error> {
        let token = place as u64;
        let offset = place % plan.slots() * plan.stride() as usize + lead(plan);
        let range = offset..offset + plan.size as usize;
        if plan.operation == Operation::Send {
            return Ok(Op::send(token, self.source.slice(range)));
        }
        let window =
            self.window.as_ref().ok_or_else(|| Error::misuse("datagrams can only be sent"))?;
        let there = window.at(offset as u64);
        Ok(match plan.operation {
            Operation::Read => Op::read(token, self.target.slice(range), there),
            Operation::Atomic => {
                let old = self.source.slice(range);
                Op { token, work: Work::FetchAdd { old, at: there, add: 1 } }
            }
            Operation::Write | Operation::Send => Op::write(token, self.source.slice(range), there),
        })
    }

    /// Lets messages come: as many as the other end has in flight, and as many again on their heels.
    pub(crate) fn receive(&mut self, plan: &Plan) {
        let most = self.lane.caps().receives.min(2 * plan.depth as usize);
        let places = (0..most).map(|place| place % plan.slots() * plan.stride() as usize);
        let mut ops: VecDeque<Op> = places
            .map(|at| Op::receive(RECEIVE, self.target.slice(at..at + plan.stride() as usize)))
            .collect();
        self.lane.post(&mut ops);
    }

    /// Polls; what failed is the end of it.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<&mut Vec<Completion>, Error> {
        self.lane.poll(&mut self.done);
        match self.done.iter().find_map(|completion| completion.outcome.err()) {
            None => Ok(&mut self.done),
            Some(failure) => Err(failure.into()),
        }
    }
}

/// How far from the beginning of its place a message lies: so far that its last eight bytes can be seen as one, where they
/// tell that it came.
pub(crate) fn lead(plan: &Plan) -> usize {
    match (plan.test, plan.operation) {
        (Test::Latency, Operation::Write) => (8 - plan.size as usize % 8) % 8,
        _ => 0,
    }
}

/// Sends ours and receives theirs, in an order that suits both ends.
pub(crate) fn exchange(
    talk: &mut ControlChannel,
    ours: Message,
    side: Side,
) -> Result<Message, Error> {
    if side == Side::Dial {
        talk.say(&ours)?;
        return talk.hear(PATIENCE);
    }
    let theirs = talk.hear(PATIENCE)?;
    talk.say(&ours)?;
    Ok(theirs)
}

/// The token of receives, which no place has.
pub(crate) const RECEIVE: u64 = u64::MAX;
const CONNECT: Duration = Duration::from_secs(20);
