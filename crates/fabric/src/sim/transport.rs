//! How a call gets through: sent, sent again, served once, answered. As a reliable connection of
//! RDMA does it, by packets of any size.

use std::time::Duration;

use super::call::Waiting;
use super::end::{EndState, Served};
use super::state::{Event, State, forget};
use crate::op::Failure;

impl State {
    /// Puts a call on the wire, for the first time or again.
    pub(super) fn send(&mut self, id: u64) {
        let State { calls, ends, rails, random, now, .. } = self;
        let call = calls.get_mut(&id).expect("the caller has seen it");
        let sender = &ends[&call.from];
        let rail = rails.get_mut(&sender.rail).expect("made with its first end");
        let trip = rail.launch(&sender.host, call.request.carries(), *now, random);
        // A long answer is no silence.
        let answered = trip.leaves.saturating_add(rail.sending(call.request.asks_for()));
        call.sent += 1;
        let silence = Event::Silence(id, call.sent);
        call.in_air += u32::from(trip.lands.is_some());
        self.plan(answered.saturating_add(self.config.retransmit), silence);
        if let Some(lands) = trip.lands {
            self.plan(lands, Event::Request(id));
        }
    }

    pub(super) fn request_arrives(&mut self, id: u64) {
        let call = self.calls.get_mut(&id).expect("kept while in the air");
        call.in_air -= 1;
        let ordered = |rail: &str| self.config.ordered || self.rails[rail].faults.reorder.is_zero();
        match self.ends.get_mut(&call.to) {
            Some(end) if end.state == EndState::Live && end.peer == Some(call.from) => {
                if call.answer.is_some() {
                    self.answer(id);
                } else if end.arrivals.is_next(call.order) || !ordered(&end.rail) {
                    self.serve(id);
                } else {
                    end.arrivals.early.insert(call.order, id);
                }
            }
            // Closed, dead, gone or not yet connected: nobody answers.
            _ => {}
        }
        forget(&mut self.calls, id);
    }

    /// Serves a call, and those that waited for their turn after it.
    fn serve(&mut self, id: u64) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            // One that came early may have been given up since.
            let Some(call) = self.calls.get_mut(&id) else { return };
            let target = self.ends.get_mut(&call.to).expect("just seen");
            match target.serve(&call.request) {
                Served::Done(answer) => {
                    call.answer = Some(Ok(answer));
                    target.arrivals.served(call.order);
                    next = target.arrivals.next_early();
                    self.answer(id);
                }
                Served::NotReady => {
                    self.reply(id, 0, Event::NotReady(id));
                }
                Served::Refused(failure) => {
                    call.answer = Some(Err(failure));
                    let target = call.to;
                    self.answer(id);
                    self.end_lane(target);
                }
            }
        }
    }

    /// Answers a call that was served.
    fn answer(&mut self, id: u64) {
        let call = &self.calls[&id];
        // A copy came while the answer still waits for its turn on the wire.
        if call.answer_leaves > self.now {
            return;
        }
        let leaves = self.reply(id, call.request.asks_for(), Event::Answer(id));
        self.calls.get_mut(&id).expect("just seen").answer_leaves = leaves;
    }

    /// Puts a packet for the sender on the wire. Says when it has left.
    fn reply(&mut self, id: u64, bytes: usize, event: Event) -> Duration {
        let State { calls, ends, rails, random, now, .. } = self;
        let call = calls.get_mut(&id).expect("just seen");
        let target = &ends[&call.to];
        let rail = rails.get_mut(&target.rail).expect("made with its first end");
        let trip = rail.launch(&target.host, bytes, *now, random);
        if let Some(lands) = trip.lands {
            call.in_air += 1;
            self.plan(lands, event);
        }
        trip.leaves
    }

    pub(super) fn answer_arrives(&mut self, id: u64) {
        let call = self.calls.get_mut(&id).expect("kept while in the air");
        call.in_air -= 1;
        let refused = call.answer.as_ref().and_then(|answer| answer.as_ref().err().copied());
        match (&call.waiting, refused) {
            (None, _) => forget(&mut self.calls, id),
            (Some(_), Some(failure)) => self.fail(id, failure),
            (Some(_), None) => self.succeed(id),
        }
    }

    fn succeed(&mut self, id: u64) {
        let call = self.calls.get_mut(&id).expect("the caller has seen it");
        let waiting = call.waiting.take().expect("the caller has seen it");
        let Some(Ok(answer)) = &call.answer else { unreachable!("the caller has seen it") };
        let Waiting { op, posted, timed } = waiting;
        let done = answer.deliver(&op.work);
        let took = timed.then(|| self.now - posted);
        let sender = self.ends.get_mut(&call.from).expect("waits, so it lives");
        sender.calls.remove(&id);
        sender.finish(op, Ok(done), took);
        forget(&mut self.calls, id);
    }

    /// Tells the sender that a call failed; that ends its lane.
    fn fail(&mut self, id: u64, failure: Failure) {
        let call = self.calls.get_mut(&id).expect("the caller has seen it");
        let waiting = call.waiting.take().expect("the caller has seen it");
        let number = call.from;
        let sender = self.ends.get_mut(&number).expect("waits, so it lives");
        sender.calls.remove(&id);
        sender.finish(waiting.op, Err(failure), None);
        forget(&mut self.calls, id);
        self.end_lane(number);
    }

    /// The target has no receive: try again until it has one, or patience ends.
    pub(super) fn not_ready_arrives(&mut self, id: u64) {
        let call = self.calls.get_mut(&id).expect("kept while in the air");
        call.in_air -= 1;
        if call.waiting.is_none() || call.answer.is_some() {
            return forget(&mut self.calls, id);
        }
        let since = *call.not_ready_since.get_or_insert(self.now);
        let patience_ends = since.saturating_add(self.config.patience);
        if self.now >= patience_ends {
            return self.fail(id, Failure::NotReady);
        }
        // It answers, so it lives.
        call.silences = 0;
        let again = Event::Again(id, call.sent);
        self.plan(patience_ends.min(self.now + NOT_READY_PAUSE), again);
    }

    pub(super) fn again(&mut self, id: u64, sent: u64) {
        if self.is_waiting(id, sent) {
            self.send(id);
        }
    }

    /// No answer came: send again, until there were too many silences.
    pub(super) fn silence(&mut self, id: u64, sent: u64) {
        if !self.is_waiting(id, sent) {
            return;
        }
        let call = self.calls.get_mut(&id).expect("it waits");
        // Only the oldest call counts silences, as a queue pair has one timer: those behind it may
        // have to wait for it. And an answer that is being sent is no silence.
        let oldest = self.ends[&call.from].calls.first() == Some(&id);
        if oldest && call.answer_leaves <= self.now {
            call.silences += 1;
        }
        if call.silences > self.config.retries {
            self.fail(id, Failure::PeerGone);
        } else {
            self.send(id);
        }
    }

    /// Whether a call is not over, and was not sent again since.
    pub(super) fn is_waiting(&self, id: u64, sent: u64) -> bool {
        self.calls.get(&id).is_some_and(|call| call.waiting.is_some() && call.sent == sent)
    }
}

/// How long a sender waits before it asks again for a receive.
const NOT_READY_PAUSE: Duration = Duration::from_millis(10);
