//! Sends, retransmits, serves and answers calls, like a reliable RDMA connection, but with
//! packets of any size.

use std::time::Duration;

use super::call::WaitingOperation;
use super::end::{EndState, ServeResult};
use super::state::{Event, State, drop_finished};
use crate::op::{Done, Failure};

impl State {
    /// Sends a call, for the first time or again.
    pub(super) fn send(&mut self, id: u64) {
        let State { calls, ends, wires, random, now, .. } = self;
        let call = calls.get_mut(&id).expect("checked by the caller");
        let sender = &ends[&call.from];
        let wire = wires.get_mut(&sender.wire).expect("created with its first end");
        let transit = wire.send(&sender.host, call.request.request_bytes(), *now, random);
        // The time to send a long answer does not count.
        let answered = transit.sent_at.saturating_add(wire.send_time(call.request.answer_bytes()));
        call.sent += 1;
        let timeout = Event::AnswerTimeout(id, call.sent);
        call.packets_in_flight += u32::from(transit.arrives_at.is_some());
        self.schedule(answered.saturating_add(self.config.retransmit), timeout);
        if let Some(lands) = transit.arrives_at {
            self.schedule(lands, Event::Request(id));
        }
    }

    pub(super) fn request_arrives(&mut self, id: u64) {
        let call = self.calls.get_mut(&id).expect("kept while packets are in flight");
        call.packets_in_flight -= 1;
        let ordered = |wire: &str| self.config.ordered || self.wires[wire].faults.reorder.is_zero();
        match self.ends.get_mut(&call.to) {
            Some(end) if end.state == EndState::Live && end.peer == Some(call.from) => {
                if call.answer.is_some() {
                    self.answer(id);
                } else if end.arrivals.is_next(call.order) || !ordered(&end.wire) {
                    self.serve(id);
                } else {
                    end.arrivals.early.insert(call.order, id);
                }
            }
            // Closed, dead, dropped or not yet connected: no answer.
            _ => {}
        }
        drop_finished(&mut self.calls, id);
    }

    /// Serves a call, and early ones that waited for it.
    fn serve(&mut self, id: u64) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            // An early call may have been dropped since.
            let Some(call) = self.calls.get_mut(&id) else { return };
            let target = self.ends.get_mut(&call.to).expect("just seen");
            match target.serve(&call.request) {
                ServeResult::Done(answer) => {
                    call.answer = Some(Ok(answer));
                    target.arrivals.mark_served(call.order);
                    next = target.arrivals.next_early();
                    self.answer(id);
                }
                ServeResult::NotReady => {
                    self.reply(id, 0, Event::NotReady(id));
                }
                ServeResult::Refused(failure) => {
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
        // A retransmission arrived while the answer is being sent.
        if call.answer_sent_at > self.now {
            return;
        }
        let leaves = self.reply(id, call.request.answer_bytes(), Event::Answer(id));
        self.calls.get_mut(&id).expect("just seen").answer_sent_at = leaves;
    }

    /// Sends a packet to the sender. Returns when it is sent.
    fn reply(&mut self, id: u64, bytes: usize, event: Event) -> Duration {
        let State { calls, ends, wires, random, now, .. } = self;
        let call = calls.get_mut(&id).expect("just seen");
        let target = &ends[&call.to];
        let wire = wires.get_mut(&target.wire).expect("created with its first end");
        let transit = wire.send(&target.host, bytes, *now, random);
        if let Some(lands) = transit.arrives_at {
            call.packets_in_flight += 1;
            self.schedule(lands, event);
        }
        transit.sent_at
    }

    pub(super) fn answer_arrives(&mut self, id: u64) {
        let call = self.calls.get_mut(&id).expect("kept while packets are in flight");
        call.packets_in_flight -= 1;
        let refused = call.answer.as_ref().and_then(|answer| answer.as_ref().err().copied());
        match (&call.waiting, refused) {
            (None, _) => drop_finished(&mut self.calls, id),
            (Some(_), Some(failure)) => self.fail(id, failure),
            (Some(_), None) => self.succeed(id),
        }
    }

    fn succeed(&mut self, id: u64) {
        let call = self.calls.get_mut(&id).expect("checked by the caller");
        let waiting = call.waiting.take().expect("checked by the caller");
        let Some(Ok(answer)) = &call.answer else { unreachable!("checked by the caller") };
        let WaitingOperation { op, posted, timed } = waiting;
        let done = op.as_ref().map_or(Done::Placed, |op| answer.deliver(&op.work));
        let took = timed.then(|| self.now - posted);
        let sender = self.ends.get_mut(&call.from).expect("waits, so it lives");
        sender.calls.remove(&id);
        sender.finish_call(id, op, Ok(done), took);
        drop_finished(&mut self.calls, id);
    }

    /// Fails a call at the sender, which ends its lane.
    fn fail(&mut self, id: u64, failure: Failure) {
        let call = self.calls.get_mut(&id).expect("checked by the caller");
        let waiting = call.waiting.take().expect("checked by the caller");
        let number = call.from;
        let sender = self.ends.get_mut(&number).expect("waits, so it lives");
        sender.calls.remove(&id);
        sender.finish_call(id, waiting.op, Err(failure), None);
        sender.end(failure);
        drop_finished(&mut self.calls, id);
        self.end_lane(number);
    }

    /// The target has no receive: retry until it has one, or the timeout.
    pub(super) fn not_ready_arrives(&mut self, id: u64) {
        let call = self.calls.get_mut(&id).expect("kept while packets are in flight");
        call.packets_in_flight -= 1;
        if call.waiting.is_none() || call.answer.is_some() {
            return drop_finished(&mut self.calls, id);
        }
        let since = *call.not_ready_since.get_or_insert(self.now);
        let deadline = since.saturating_add(self.config.receive_timeout);
        if self.now >= deadline {
            return self.fail(id, Failure::NotReady);
        }
        // It answers, so it is alive.
        call.timeouts = 0;
        let again = Event::Retry(id, call.sent);
        self.schedule(deadline.min(self.now + NOT_READY_PAUSE), again);
    }

    pub(super) fn retry(&mut self, id: u64, sent: u64) {
        if self.is_waiting(id, sent) {
            self.send(id);
        }
    }

    /// No answer arrived: send again, until there were too many timeouts.
    pub(super) fn answer_timed_out(&mut self, id: u64, sent: u64) {
        if !self.is_waiting(id, sent) {
            return;
        }
        let call = self.calls.get_mut(&id).expect("it waits");
        // Only the oldest call counts timeouts, as a queue pair has one timer: later ones may
        // have to wait for it. The time to send an answer does not count.
        let oldest = self.ends[&call.from].calls.first() == Some(&id);
        if oldest && call.answer_sent_at <= self.now {
            call.timeouts += 1;
        }
        if call.timeouts > self.config.retries {
            self.fail(id, Failure::PeerGone);
        } else {
            self.send(id);
        }
    }

    /// Whether a call is unfinished, and was not sent again since.
    pub(super) fn is_waiting(&self, id: u64, sent: u64) -> bool {
        self.calls.get(&id).is_some_and(|call| call.waiting.is_some() && call.sent == sent)
    }
}

/// The pause before a sender retries without a receive.
const NOT_READY_PAUSE: Duration = Duration::from_millis(10);
