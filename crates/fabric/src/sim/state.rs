//! The state of a world, and its event loop.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::call::{Call, Request, WaitingOperation};
use super::end::{End, EndState, TimedCompletion};
use super::faults::Wire;
use super::offer::{Offer, misuse};
use super::random::Random;
use super::world::Config;
use crate::error::{Error, ErrorKind};
use crate::op::{Failure, Op, OpKind, Work};
use crate::setup::Side;
use crate::stats::OPS_PER_LATENCY_SAMPLE;

/// All state. Only ordered maps, since the order of iteration is part of the history.
pub(super) struct State {
    pub(super) id: u64,
    pub(super) config: Config,
    pub(super) now: Duration,
    pub(super) random: Random,
    pub(super) wires: BTreeMap<String, Wire>,
    pub(super) ends: BTreeMap<u32, End>,
    pub(super) calls: BTreeMap<u64, Call>,
    /// Future events by time; those at the same time in the order they were scheduled.
    events: BTreeMap<(Duration, u64), Event>,
    scheduled: u64,
    next_call: u64,
    next_end: u32,
}

/// An event, with the id of its call.
pub(super) enum Event {
    /// A request arrives at the target.
    Request(u64),
    /// The answer arrives at the sender.
    Answer(u64),
    /// The target's report that it has no receive arrives at the sender.
    NotReady(u64),
    /// No answer arrived since the given attempt.
    AnswerTimeout(u64, u64),
    /// The sender retries, if it did not since the given attempt.
    Retry(u64, u64),
}

impl State {
    pub(super) fn new(id: u64, seed: u64, config: Config) -> Self {
        State {
            id,
            config,
            now: Duration::ZERO,
            random: Random::new(seed),
            wires: BTreeMap::new(),
            ends: BTreeMap::new(),
            calls: BTreeMap::new(),
            events: BTreeMap::new(),
            scheduled: 0,
            next_call: 0,
            next_end: 0,
        }
    }

    pub(super) fn schedule(&mut self, at: Duration, event: Event) {
        self.events.insert((at, self.scheduled), event);
        self.scheduled += 1;
    }

    /// The time of the next event. Timers of finished calls are removed.
    pub(super) fn next_event(&mut self) -> Option<Duration> {
        loop {
            let ((at, _), event) = self.events.first_key_value()?;
            match event {
                Event::AnswerTimeout(call, sent) | Event::Retry(call, sent)
                    if !self.is_waiting(*call, *sent) =>
                {
                    self.events.pop_first();
                }
                _ => return Some(*at),
            }
        }
    }

    /// Processes all events up to a time.
    pub(super) fn run_until(&mut self, end: Duration) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at.max(self.now);
            match event {
                Event::Request(call) => self.request_arrives(call),
                Event::Answer(call) => self.answer_arrives(call),
                Event::NotReady(call) => self.not_ready_arrives(call),
                Event::AnswerTimeout(call, sent) => self.answer_timed_out(call, sent),
                Event::Retry(call, sent) => self.retry(call, sent),
            }
        }
        self.now = end.max(self.now);
    }

    /// Processes events that are due now.
    pub(super) fn run_due(&mut self) {
        self.run_until(self.now);
    }

    pub(super) fn add_end(
        &mut self,
        host: &str,
        wire: &str,
        side: Side,
        wakeup: Arc<OwnedFd>,
    ) -> u32 {
        let number = self.next_end;
        self.next_end += 1;
        self.wires.entry(wire.to_owned()).or_default();
        self.ends.insert(number, End::new(host, wire, side, wakeup, self.config.max_unexpected));
        number
    }

    /// Connects one end to another, which may do the same before or after.
    pub(super) fn connect(&mut self, number: u32, offer: Offer) -> Result<(), Error> {
        let (ours, theirs) = (&self.ends[&number], self.ends.get(&offer.end));
        if offer.world != self.id {
            return Err(misuse("the offer belongs to another world"));
        }
        let gone = |end: &str| {
            let fix = "prepare a new lane at both ends and exchange their offers";
            Error::new(ErrorKind::Gone, "connect a simulated lane", format!("{end} is gone"), fix)
        };
        let theirs = theirs.filter(|end| end.state != EndState::Killed);
        let theirs = theirs.ok_or_else(|| gone("the other end"))?;
        if ours.state == EndState::Killed {
            return Err(gone("this host"));
        } else if theirs.wire != ours.wire {
            return Err(misuse(format!(
                "this end is on {}, the other on {}",
                ours.wire, theirs.wire
            )));
        } else if theirs.side == ours.side {
            return Err(misuse(format!("both ends have the side {:?}", ours.side)));
        } else if theirs.peer.is_some_and(|peer| peer != number) {
            return Err(misuse("the other end is connected to a third"));
        }
        let ours = self.ends.get_mut(&number).expect("just seen");
        (ours.state, ours.peer) = (EndState::Live, Some(offer.end));
        Ok(())
    }

    /// The lane id of an end's windows. The upper bit distinguishes it from those of
    /// other lanes of this process, which count up from one.
    pub(super) fn lane(&self, number: u32) -> u64 {
        1 << 63 | (self.id & 0x7fff_ffff) << 32 | u64::from(number)
    }

    /// Takes operations until the lane is full.
    pub(super) fn post(&mut self, number: u32, ops: &mut VecDeque<Op>) -> usize {
        let mut count = 0;
        while ops.front().is_some_and(|op| self.has_capacity(number, op.work.kind())) {
            let op = ops.pop_front().expect("just seen");
            self.start(number, op);
            count += 1;
        }
        count
    }

    fn has_capacity(&mut self, number: u32, kind: OpKind) -> bool {
        let Config { depth, receives, .. } = self.config;
        let limit = if kind == OpKind::Receive { receives } else { depth };
        let end = self.end(number);
        end.state != EndState::Live || *end.in_use(kind) < limit
    }

    fn start(&mut self, number: u32, op: Op) {
        let lane = self.lane(number);
        let end = self.end(number);
        *end.in_use(op.work.kind()) += 1;
        match end.state {
            // A killed host posts nothing.
            EndState::Killed => {}
            // Unexpected messages can still be received.
            EndState::Dead if matches!(op.work, Work::Receive { .. }) && end.has_unexpected() => {
                end.post_receive(op);
            }
            EndState::Unconnected | EndState::Dead => end.finish(op, Err(Failure::Flushed), None),
            EndState::Live if !End::supports(&op.work, lane) => {
                end.finish(op, Err(Failure::Unsupported), None);
            }
            EndState::Live if matches!(op.work, Work::Receive { .. }) => {
                if !end.post_receive(op) {
                    self.end_lane(number);
                }
            }
            EndState::Live => self.call(number, op),
        }
    }

    fn call(&mut self, number: u32, op: Op) {
        let end = self.end(number);
        let (Some(request), Some(peer)) = (Request::of(&op.work), end.peer) else {
            return end.finish(op, Err(Failure::Unsupported), None);
        };
        self.start_call(number, peer, request, Some(op));
    }

    /// Sends a packet; `false` if the lane is full.
    pub(super) fn send_packet(&mut self, number: u32, bytes: Vec<u8>) -> bool {
        if !self.has_capacity(number, OpKind::Send) {
            return false;
        }
        let id = self.next_call;
        let end = self.end(number);
        // An end that is dead sends nothing, and its owner learns that it is.
        if let (EndState::Live, Some(peer)) = (end.state, end.peer) {
            end.packet_sent(id);
            self.start_call(number, peer, Request::Packet { bytes }, None);
        }
        true
    }

    fn start_call(&mut self, number: u32, peer: u32, request: Request, op: Option<Op>) {
        let (now, id) = (self.now, self.next_call);
        let end = self.end(number);
        let order = end.calls_started;
        end.calls_started += 1;
        end.calls.insert(id);
        let timed = op.is_some() && order.is_multiple_of(OPS_PER_LATENCY_SAMPLE);
        let waiting = WaitingOperation { op, posted: now, timed };
        self.calls.insert(id, Call::new(number, peer, order, request, waiting));
        self.next_call += 1;
        self.send(id);
    }

    pub(super) fn next_completion(&mut self, number: u32) -> Option<TimedCompletion> {
        self.end(number).next_completion()
    }

    /// Ends a lane at one end: all operations are returned, and its memory is not changed any more. Packets
    /// that it sent still arrive.
    pub(super) fn end_lane(&mut self, number: u32) {
        let Some(end) = self.ends.get_mut(&number).filter(|end| end.state == EndState::Live) else {
            return;
        };
        end.state = EndState::Dead;
        for id in std::mem::take(&mut end.calls) {
            let call = self.calls.get_mut(&id).expect("an end's calls exist");
            let waiting = call.waiting.take().expect("an end's calls are unfinished");
            end.finish_call(id, waiting.op, Err(Failure::Flushed), None);
            drop_finished(&mut self.calls, id);
        }
        end.end(Failure::Flushed);
        for receive in std::mem::take(&mut end.receives) {
            end.finish(receive, Err(Failure::Flushed), None);
        }
    }

    /// Ends all lanes of a host without returning or sending anything.
    pub(super) fn kill(&mut self, host: &str) {
        for end in self.ends.values_mut().filter(|end| end.host == host) {
            end.state = EndState::Killed;
            end.receives.clear();
            while end.next_completion().is_some() {}
            for id in std::mem::take(&mut end.calls) {
                self.calls.get_mut(&id).expect("an end's calls exist").waiting = None;
                drop_finished(&mut self.calls, id);
            }
        }
    }

    /// Removes an end whose owner dropped it.
    pub(super) fn remove(&mut self, number: u32) {
        self.end_lane(number);
        self.ends.remove(&number);
    }

    pub(super) fn end(&mut self, number: u32) -> &mut End {
        self.ends.get_mut(&number).expect("an end lives as long as its owner")
    }
}

/// Drops a call that is finished and has no packets in flight.
pub(super) fn drop_finished(calls: &mut BTreeMap<u64, Call>, id: u64) {
    if calls.get(&id).is_some_and(|call| call.waiting.is_none() && call.packets_in_flight == 0) {
        calls.remove(&id);
    }
}
