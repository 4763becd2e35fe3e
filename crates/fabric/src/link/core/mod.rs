//! A link without its descriptors and clocks: it is told the time. This is the hot path; `rails` makes and
//! ends lanes, `messages` handles what comes by message.

mod complete;
mod completions;
mod control_connection;
mod fence;
mod messages;
mod pieces;
mod rails;
mod whole;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use self::pieces::Choice;
use crate::lane::{Caps, Lane};
use crate::link::config::Config;
use crate::link::event::Journal;
use crate::link::messages::inbox::Inbox;
use crate::link::messages::incoming::Incoming;
use crate::link::messages::outgoing::{Draft, Outgoing};
use crate::link::operations::operation::{Operation, Tail};
use crate::link::operations::part::{NEVER, Part, PartKind, Piece};
use crate::link::protocol::control::Control;
use crate::link::protocol::header::Stream;
use crate::link::rails::connector::Connector;
use crate::link::rails::rail::{Key, Rail, RailConnection, State};
use crate::link::regions::{Granted, PeerRegions};
use crate::op::{Completion, Failure, Op, Work};
use crate::region::{Rights, Slice};
use crate::remote::{Reach, Target, Window};
use crate::slab::Slab;
use crate::stats::Stats;

use self::completions::Completions;
use self::control_connection::ControlConnection;

pub(crate) use self::control_connection::Connection;

pub(crate) struct Core {
    pub(in crate::link) config: Config,
    pub(in crate::link) caps: Caps,
    /// The number by which windows know the link.
    pub(in crate::link) number: u64,
    /// Whether this end decides which rails there are, and begins them.
    pub(in crate::link) leads: bool,
    /// Names this life of ours, and the peer's, in regions.
    pub(in crate::link) epochs: [u64; 2],
    /// The payload of one message that the peer takes.
    pub(in crate::link) their_room: u64,

    pub(in crate::link) control: ControlConnection,
    pub(in crate::link) connector: Box<dyn Connector>,
    pub(in crate::link) rails: Vec<Rail>,
    /// Rails with a lane, and those of them that are in use.
    pub(in crate::link) live: Vec<u8>,
    pub(in crate::link) active: Vec<u8>,
    /// How many of those with a lane are not being closed.
    pub(in crate::link) healthy: usize,
    /// Which of the active ones had the last turn.
    pub(in crate::link) turn: usize,

    pub(in crate::link) parts: Slab<Part>,
    pub(in crate::link) operations: Slab<Operation>,
    /// Operations with bytes that are in no piece yet.
    pub(in crate::link) waiting: VecDeque<u32>,
    /// Pieces of dead lanes, to be done again.
    pub(in crate::link) again: VecDeque<Piece>,
    /// Operations on regions whose key has not come yet.
    pub(in crate::link) keyless: Vec<u32>,
    pub(in crate::link) outgoing: [Outgoing; 2],
    pub(in crate::link) incoming: [Incoming; 2],
    /// Notices that must wait until their write, done again, is placed.
    /// Whose they are, and their place among the messages.
    pub(in crate::link) held: Vec<(u32, u64)>,
    pub(in crate::link) inbox: Inbox,
    pub(in crate::link) granted: Granted,
    /// Keys that a lane had no room for.
    pub(in crate::link) untold: Vec<(u8, u32, u64)>,
    /// How many regions the peer takes.
    pub(in crate::link) their_regions: usize,
    pub(in crate::link) heard: PeerRegions,

    completions: Completions,
    /// Room for receives of lanes.
    pub(in crate::link) receives: VecDeque<Op>,
    pub(in crate::link) ended: Option<Ended>,
    pub(in crate::link) now: Duration,
    /// Since when no rail is up.
    pub(in crate::link) stranded: Option<Duration>,
    pub(in crate::link) journal: Journal,
}

/// Why a link is over.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) failure: Failure,
    pub(crate) why: String,
}

/// What a core is made of.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) leads: bool,
    pub(crate) epochs: [u64; 2],
    pub(crate) their_room: usize,
    pub(crate) their_regions: usize,
    pub(crate) connection: Box<dyn Connection>,
    pub(crate) connector: Box<dyn Connector>,
    pub(crate) plans: Vec<crate::link::protocol::control::Plan>,
    pub(crate) now: Duration,
}

impl Core {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            config,
            leads,
            epochs,
            their_room,
            their_regions,
            connection,
            connector,
            plans,
            now,
        } = parts;
        Core {
            caps: caps(&config),
            config,
            number: crate::lane::number(),
            leads,
            epochs,
            their_room: their_room as u64,
            control: ControlConnection::new(connection, now),
            connector,
            rails: plans.into_iter().map(Rail::new).collect(),
            live: Vec::new(),
            active: Vec::new(),
            healthy: 0,
            turn: 0,
            parts: Slab::new(),
            operations: Slab::new(),
            waiting: VecDeque::new(),
            again: VecDeque::new(),
            keyless: Vec::new(),
            outgoing: [Outgoing::waiting(), Outgoing::default()],
            incoming: Default::default(),
            held: Vec::new(),
            inbox: Inbox::default(),
            granted: Granted::default(),
            untold: Vec::new(),
            their_regions,
            heard: PeerRegions::default(),
            completions: Completions::new(),
            receives: VecDeque::new(),
            ended: None,
            now,
            stranded: Some(now),
            journal: Journal::default(),
        }
    }

    pub(crate) fn caps(&self) -> &Caps {
        &self.caps
    }

    pub(in crate::link) fn stats(&self) -> &Arc<Stats> {
        self.completions.stats()
    }

    // Operations come in.

    #[inline]
    pub(crate) fn post(&mut self, ops: &mut VecDeque<Op>) -> usize {
        if let Some(count) = self.post_whole(ops) {
            return count;
        }
        let before = ops.len();
        while let Some(op) = ops.front().filter(|op| self.has_room(op)) {
            let refusal = self.refusal(&op.work);
            let Some(op) = ops.pop_front() else { break };
            match refusal {
                None => self.begin(op),
                Some(failure) => self.refuse(op, failure),
            }
        }
        self.pump();
        self.ring();
        // Receives may have emptied slots. What was posted goes before that.
        self.refill_all();
        self.ring();
        before - ops.len()
    }

    #[inline]
    fn has_room(&self, op: &Op) -> bool {
        match op.work {
            Work::Receive { .. } => self.inbox.receives() < self.config.receives,
            _ => self.completions.in_flight() < self.config.depth,
        }
    }

    /// What is refused here and now costs no lane its life.
    #[inline]
    fn refusal(&self, work: &Work) -> Option<Failure> {
        if let Some(ended) = &self.ended {
            // What came before the end is still there to be received.
            if matches!(work, Work::Receive { .. }) && self.inbox.has_messages() {
                return None;
            }
            return Some(match ended.failure {
                Failure::Flushed => Failure::Flushed,
                _ => Failure::PeerGone,
            });
        }
        if let Err(failure) = self.caps.allow(work, self.number) {
            return Some(failure);
        }
        let allowed = work.target().is_none_or(|target| is_allowed(work, target, work.total()));
        (!allowed).then_some(Failure::Access)
    }

    #[cold]
    fn refuse(&mut self, op: Op, failure: Failure) {
        if !matches!(op.work, Work::Receive { .. }) {
            self.completions.accept(1);
        }
        self.completions.finish(op, Err(failure));
    }

    #[inline]
    fn begin(&mut self, op: Op) {
        if let Work::Receive { .. } = op.work {
            self.inbox.post(op);
            self.deliver();
            return self.settle_receives();
        }
        self.completions.accept(1);
        let plain = matches!(op.work, Work::Write { imm: None, .. } | Work::Read { .. });
        if plain && self.waiting.is_empty() && self.again.is_empty() {
            match self.begin_whole(op) {
                None => return,
                Some(op) => return self.begin_flight(op),
            }
        }
        self.begin_flight(op);
    }

    /// An operation that one lane can do as it is: nothing is copied, only the window is changed.
    #[inline]
    fn begin_whole(&mut self, mut op: Op) -> Option<Op> {
        let bytes = op.work.total() as u64;
        let Some(target) = op.work.target_mut() else { return Some(op) };
        if bytes > self.config.chunk as u64 {
            return Some(op);
        }
        let Choice::Rail(rail, window) = self.choose(target.window.region(), bytes) else {
            return Some(op);
        };
        let window = std::mem::replace(&mut target.window, window);
        let what = PartKind::Whole { token: op.token, window };
        let part = self.put(rail, bytes, op.work, what);
        self.completions.posted_whole(part, 1);
        None
    }

    fn begin_flight(&mut self, op: Op) {
        let work = match op.work {
            Work::Send { .. } => Some(Draft::Send as fn(u32) -> Draft),
            Work::FetchAdd { .. } | Work::CompareSwap { .. } => {
                Some(Draft::Change as fn(u32) -> Draft)
            }
            _ => None,
        };
        let mut operation = Operation::new(op);
        operation.timed = self.completions.posted_in_pieces();
        let operation = self.operations.insert(operation);
        match work {
            Some(draft) => {
                let draft = draft(operation);
                let stream = match draft {
                    Draft::Send(_) => Stream::Messages,
                    _ => Stream::Control,
                };
                self.outgoing[stream as usize].push(draft);
            }
            None if !self.begin_with_notice(operation) => self.waiting.push_back(operation),
            None => {}
        }
    }

    /// A short write with a number: on a lane that keeps order the number follows the bytes at once.
    fn begin_with_notice(&mut self, number: u32) -> bool {
        let Some(operation) = self.operations.get(number) else { return false };
        let total = operation.total;
        let messages = &self.outgoing[Stream::Messages as usize];
        if operation.tail != Tail::Notice
            || total > self.config.chunk as u64
            || !(self.waiting.is_empty() && self.again.is_empty())
            || !(messages.is_empty() && messages.may_number())
        {
            return false;
        }
        let Choice::Rail(rail, window) = self.choose(operation.region(), total) else {
            return false;
        };
        let Some(connection) = &self.rails[usize::from(rail)].connection else { return false };
        if !connection.ordered || !connection.messages.has_room(Stream::Messages) {
            return false;
        }
        if let Some(operation) = self.operations.get_mut(number) {
            operation.pieces = 1;
            operation.cut = total;
        }
        self.put_piece(rail, Piece { operation: number, offset: 0, length: total }, window);
        self.draft_notice(number);
        self.send_next(Stream::Messages, Some(rail));
        true
    }

    /// Gives an operation to a rail.
    #[inline]
    pub(in crate::link) fn put(&mut self, rail: u8, bytes: u64, work: Work, what: PartKind) -> u32 {
        let Some(connection) = &mut self.rails[usize::from(rail)].connection else {
            return u32::MAX;
        };
        let proof = match (&what, &work) {
            (what, _) if what.is_message() => {
                connection.sent += 1;
                connection.sent
            }
            (_, Work::Read { .. }) => NEVER,
            // A message that is sent later and received proves it.
            _ => connection.sent + 1,
        };
        if connection.out == 0 {
            connection.progress = None;
        }
        connection.out += 1;
        connection.bytes_out += bytes;
        let part = self.parts.insert(Part { rail, bytes, proof, what });
        connection.queue.push_back(Op { token: u64::from(part), work });
        part
    }

    /// Hands to the lanes what they were given.
    #[inline]
    pub(in crate::link) fn ring(&mut self) {
        for rail in &self.live {
            if let Some(connection) = &mut self.rails[usize::from(*rail)].connection
                && !connection.queue.is_empty()
            {
                connection.lane.post(&mut connection.queue);
            }
        }
    }

    // What waits finds its rail.

    #[inline]
    pub(in crate::link) fn pump(&mut self) {
        let idle = self.waiting.is_empty() && self.again.is_empty();
        if !idle {
            self.pump_pieces();
        }
        for stream in [Stream::Messages, Stream::Control] {
            if !self.outgoing[stream as usize].is_empty() {
                self.send_all(stream);
            }
        }
    }

    // Operations come back.

    #[inline]
    pub(crate) fn poll(&mut self, now: Duration, done: &mut Vec<Completion>) -> usize {
        self.now = now;
        let before = done.len();
        let direct = self.completions.collect_into(done);
        for at in 0..self.live.len() {
            self.poll_rail(self.live[at]);
        }
        if self.live.len() > 1 {
            self.refill_all();
        }
        self.pump();
        self.ring();
        self.completions.give(done, direct);
        done.len() - before
    }

    #[inline]
    pub(in crate::link) fn poll_rail(&mut self, rail: u8) {
        let done = self.completions.buffer();
        let before = done.len();
        let Some(connection) = &mut self.rails[usize::from(rail)].connection else { return };
        if connection.lane.poll(done) > 0 || connection.progress.is_none() {
            connection.progress = Some(self.now);
            self.finish_all(rail, before);
        }
        self.refill(rail);
    }

    /// What came back from a lane: the usual where it is, the rest one by one.
    #[inline]
    fn finish_all(&mut self, rail: u8, before: usize) {
        let rest = self.finish_whole(rail, before);
        if rest < self.completions.buffer().len() {
            self.sort_out(rail, rest);
        }
    }

    /// What came back from a lane is not all the caller's.
    fn sort_out(&mut self, rail: u8, from: usize) {
        let mut batch = self.completions.take_batch(from);
        for completion in batch.drain(..) {
            match completion.token & RECEIVE {
                0 => self.complete(rail, completion),
                _ => self.receive(rail, completion),
            }
        }
        self.completions.sorted(batch);
    }

    // The end.

    /// What the peer must hear.
    pub(in crate::link) fn say(&mut self, message: &Control) {
        if let Err(why) = self.control.send(message) {
            self.fail_link(Failure::PeerGone, &why);
        }
    }

    /// Takes everything that is not on a lane, once the link is over.
    pub(in crate::link) fn take_all(&mut self) -> Vec<Operation> {
        self.waiting.clear();
        self.again.clear();
        self.keyless.clear();
        self.held.clear();
        self.outgoing = Default::default();
        self.operations.take_all().collect()
    }

    /// Reads the peer's memory now, if the one lane in use can.
    #[inline]
    pub(in crate::link) fn peek(&mut self, window: &Window, offset: u64, into: &Slice) -> bool {
        self.only(window).is_some_and(|(lane, there)| lane.peek(there, offset, into))
    }

    #[inline]
    pub(in crate::link) fn poke(
        &mut self,
        window: &Window,
        offset: u64,
        bytes: &[u8],
        word: (u64, u64),
    ) -> bool {
        self.only(window).is_some_and(|(lane, there)| lane.poke(there, offset, bytes, word))
    }

    /// The only lane in use, and what a window is there.
    #[inline]
    fn only(&mut self, window: &Window) -> Option<(&mut dyn Lane, &Window)> {
        let ([rail], Reach::Link { region }) = (&self.active[..], window.reach()) else {
            return None;
        };
        let connection = self.rails[usize::from(*rail)].connection.as_mut()?;
        let RailConnection { lane, keys, closed: false, .. } = connection else { return None };
        match keys.get(crate::link::rails::rail::index(*region)).and_then(Option::as_ref) {
            Some((id, Key::Open(there))) if id == region => Some((lane.as_mut(), there)),
            _ => None,
        }
    }

    /// Whether everything uses shared memory.
    #[inline]
    pub(in crate::link) fn is_near(&self) -> bool {
        let class = |rail: &u8| self.rails[usize::from(*rail)].plan.class;
        matches!(&self.active[..], [rail] if class(rail) == crate::link::protocol::control::Class::Shm)
    }

    // For who sleeps.

    /// Whether nothing waits to be told.
    pub(in crate::link) fn is_idle(&self) -> bool {
        self.completions.is_empty()
    }

    /// Whether a lane is ending, which is not slept on.
    #[inline]
    pub(in crate::link) fn is_urgent(&self) -> bool {
        self.live.len() != self.healthy || self.control.has_more()
    }

    /// Prepares all lanes for sleep; `false` if one of them has something to do.
    pub(in crate::link) fn arm_lanes(&mut self) -> bool {
        let Core { live, rails, .. } = self;
        live.iter().all(|at| {
            let connection = rails[usize::from(*at)].connection.as_mut();
            connection.is_none_or(|connection| connection.queue.is_empty() && connection.lane.arm())
        })
    }

    /// Why no rail is up.
    pub(in crate::link) fn obstacles(&self) -> String {
        let each = self.rails.iter().map(|rail| match rail.state {
            State::Trying { since, .. } => {
                let so_far = self.now.saturating_sub(since);
                format!("{}: being set up for {so_far:.1?}", rail.name(self.leads))
            }
            _ => format!("{}: {}", rail.name(self.leads), rail.why),
        });
        let each = each.collect::<Vec<_>>().join("; ");
        if each.is_empty() { "the peer has not opened a rail yet".to_owned() } else { each }
    }
}

/// Whether the peer would let us, as far as we know.
#[inline]
pub(in crate::link) fn is_allowed(work: &Work, target: &Target, length: usize) -> bool {
    let wanted = match work {
        Work::Write { .. } => Rights { write: true, ..Rights::NONE },
        Work::Read { .. } => Rights { read: true, ..Rights::NONE },
        _ => Rights { atomic: true, ..Rights::NONE },
    };
    target.window.rights().allow(wanted) && target.holds(length)
}

fn caps(config: &Config) -> Caps {
    Caps {
        lane: "link",
        datagram: false,
        max_message: 1 << 40,
        // One less than the least of the lanes: the header of a message is a piece too.
        max_pieces: 15,
        depth: config.depth,
        receives: config.receives,
        inline: 0,
        peer_must_poll: true,
        borrowed: crate::lane::BorrowedPath::OneCopy,
        spins: true,
        naps: false,
        rdma: false,
        ordered: false,
    }
}

/// Tells receives from other operations of a lane, in their tokens.
pub(in crate::link) const RECEIVE: u64 = 1 << 63;
