//! How lanes end: each end closes its own, says how many messages had come, and only when both have done
//! so is anything done again. A write of a dead lane may land until its *target* has closed.

use std::time::Duration;

use super::rails::HEDGE;
use super::{Core, Ended};
use crate::link::event::Happening;
use crate::link::operations::operation::Operation;
use crate::link::operations::part::{Part, PartKind, Piece, as_it_was};
use crate::link::protocol::control::{Class, Control};
use crate::link::protocol::header::{Body, Stream};
use crate::link::rails::connector::{ConnectorTask, Task};
use crate::link::rails::rail::{Lost, State};
use crate::op::{Failure, Work};

impl Core {
    /// A lane is dead, or could not be made.
    pub(in crate::link) fn die(&mut self, at: u8, why: &str) {
        let rail = &mut self.rails[usize::from(at)];
        let what = match rail.state {
            State::Up { since } => {
                let lived = self.now.saturating_sub(since);
                rail.flaps = if lived < 10 * self.config.settle { rail.flaps + 1 } else { 1 };
                Happening::RailDown
            }
            State::Trying { .. } => Happening::RailRefused,
            State::Standby { .. } | State::Fencing { .. } => return,
        };
        rail.state = State::Fencing { since: self.now };
        rail.why = why.to_owned();
        rail.making.half = None;
        if let Some(connection) = &mut rail.connection {
            connection.close();
            self.healthy -= 1;
        }
        let name = rail.name(self.leads);
        self.journal.note(self.now, what, name, why);
        self.switch(why);
    }

    /// The peer has closed its end.
    pub(in crate::link) fn hear_fenced(
        &mut self,
        at: u8,
        generation: u32,
        received: u64,
        why: &str,
    ) {
        let Some(rail) = self.rails.get_mut(usize::from(at)) else { return };
        if rail.generation != generation || matches!(rail.state, State::Standby { .. }) {
            return;
        }
        rail.ending.received = Some(received);
        self.die(at, &format!("the peer says: {why}"));
    }

    /// What is due on a rail: its end, if everything is back, or its death, if it stands still.
    pub(in crate::link) fn look_after(&mut self, at: u8) {
        let rail = &mut self.rails[usize::from(at)];
        match rail.state {
            State::Standby { .. } => self.tidy(at),
            State::Trying { until, .. } if until <= self.now => {
                self.die(at, "it was not ready in time");
            }
            State::Fencing { since } => {
                self.fence(at);
                self.limit_fence(at, since);
            }
            State::Up { .. } | State::Trying { .. } => {
                let Some(connection) = &rail.connection else { return };
                let timeout = self.config.op_timeout;
                let still = connection.progress.is_some_and(|since| since + timeout <= self.now);
                // Where the peer's own CPU must help, a busy peer is no dead lane.
                if connection.out > 0 && still && !connection.lane.caps().peer_must_poll {
                    // Perhaps it was only us who did not look.
                    self.poll_rail(at);
                    let connection = self.rails[usize::from(at)].connection.as_ref();
                    if connection.is_none_or(|connection| connection.progress == Some(self.now)) {
                        return;
                    }
                    let timeout = timeout.as_millis();
                    self.die(at, &format!("nothing was completed for {timeout} ms"));
                }
            }
        }
    }

    /// A device that was torn out stays until everybody lets go of it. The leading end sees to that when it
    /// tries again.
    fn tidy(&mut self, at: u8) {
        let rail = &mut self.rails[usize::from(at)];
        let due = self.now >= rail.tidied + self.config.settle;
        if rail.plan.class != Class::Verbs || self.leads || rail.generation == 0 || !due {
            return;
        }
        rail.tidied = self.now;
        let (class, way) = (rail.plan.class, rail.plan.ways[1].clone());
        let task = Task::Tidy { class, way };
        self.connector.start(ConnectorTask { rail: at, generation: rail.generation, task });
    }

    fn fence(&mut self, at: u8) {
        let rail = &mut self.rails[usize::from(at)];
        if let Some(mut connection) = rail.connection.take_if(|connection| connection.is_drained())
        {
            self.live.retain(|live| *live != at);
            self.inbox.evacuate(at, |slot, payload| connection.messages.payload(slot, payload));
            rail.ending.counted = connection.received;
            rail.ending.ordered = connection.ordered;
            rail.ending.arrived = connection.arrived;
            connection.queue.clear();
            let task = Task::Discard(Box::new(connection));
            self.connector.start(ConnectorTask { rail: at, generation: rail.generation, task });
        }
        let rail = &mut self.rails[usize::from(at)];
        // One that is still being made is not waited for, since a device may not answer: nothing was ever posted on it, and
        // the peer posts nothing but a probe before it has heard of ours.
        if rail.connection.is_some() {
            return;
        }
        let told = std::mem::replace(&mut rail.ending.told, true);
        if !told && rail.making.known && self.ended.is_none() {
            let (generation, received) = (rail.generation, rail.ending.counted);
            let why = rail.why.clone();
            self.say(&Control::Fenced { rail: at, generation, received, why });
        }
        let rail = &mut self.rails[usize::from(at)];
        if let Some(received) = rail.ending.received.or((!rail.making.known).then_some(0)) {
            self.resolve(at, received);
        }
    }

    /// A peer that lives and does not close its end leaves what was in flight undecided.
    fn limit_fence(&mut self, at: u8, since: Duration) {
        let rail = &self.rails[usize::from(at)];
        let fencing = matches!(rail.state, State::Fencing { .. });
        if fencing && self.ended.is_none() && self.now >= since + self.config.silence {
            let (name, limit) = (rail.name(self.leads), self.config.silence);
            let why = format!("{name} was not closed at both ends within {limit:?}");
            self.fail_link(Failure::PeerGone, &why);
        }
    }

    /// Both ends are closed, and the peer has received so many messages: now it is known what happened.
    fn resolve(&mut self, at: u8, received: u64) {
        let rail = &mut self.rails[usize::from(at)];
        rail.state = State::Standby {
            until: self.now.saturating_add(rest(rail.plan.class, rail.flaps, &self.config)),
        };
        let ordered = rail.ending.ordered;
        // What the peer was told by this lane may be lost with it.
        self.inbox.tell_again();
        let rail = &mut self.rails[usize::from(at)];
        if received < rail.ending.arrived {
            let (arrived, name) = (rail.ending.arrived, rail.name(self.leads));
            let why = format!("of {arrived} messages by {name} the peer has only {received}");
            return self.fail_link(Failure::ProtocolError, &why);
        }
        for lost in std::mem::take(&mut rail.unconfirmed) {
            // On a lane without order (libfabric's) the peer's number says nothing of writes: they are done again, which
            // is safe behind the fence. Messages go again under numbers of their own, by which the peer knows those that
            // it has. So nobody has to tell which ones came.
            if ordered && received >= lost.part.proof {
                self.placed(at, lost.part, lost.work);
            } else {
                self.again(lost);
            }
        }
    }

    /// It did not happen: it is done again, unless it can never be.
    fn again(&mut self, lost: Lost) {
        let Lost { part, failure, work } = lost;
        let hopeless = failure == Failure::Access;
        match part.what {
            PartKind::Whole { token, window } => {
                let op = as_it_was(token, window, work);
                if hopeless {
                    return self.completions.finish(op, Err(failure));
                }
                let mut operation = Operation::new(op);
                (operation.cut, operation.pieces, operation.begun) = (operation.total, 1, true);
                operation.refusals = u8::from(failure == Failure::Local);
                let length = operation.total;
                let operation = self.operations.insert(operation);
                self.again.push_back(Piece { operation, offset: 0, length });
            }
            PartKind::Piece(piece) => {
                let refusals = self.operations.get_mut(piece.operation).map_or(0, |operation| {
                    operation.refusals += u8::from(failure == Failure::Local);
                    operation.refusals
                });
                if hopeless || refusals >= MAX_REFUSALS {
                    return self.abandon(&piece, failure);
                }
                self.again.push_back(piece);
            }
            PartKind::Message { stream, sequence } => self.message_again(stream, sequence),
            PartKind::Credit | PartKind::Probe => {}
        }
    }

    /// A message goes again under its number; the number of a write only when the write is placed.
    pub(in crate::link) fn message_again(&mut self, stream: Stream, sequence: u64) {
        let outgoing = &mut self.outgoing[stream as usize];
        let Some(message) = outgoing.sent(sequence) else { return };
        let operation =
            message.operation.and_then(|number| Some((number, self.operations.get(number)?)));
        match operation {
            Some((number, operation)) if operation.pieces > 0 => {
                return self.held.push((number, sequence));
            }
            // Its place in the stream must be used up all the same.
            Some((_, operation)) if operation.failure.is_some() => {
                (message.body, message.payload) = (Body::Void, 0);
            }
            _ => {}
        }
        outgoing.send_again(sequence);
    }

    // Time.

    pub(in crate::link) fn look_at_time(&mut self) {
        if self.ended.is_some() {
            return;
        }
        if self.control.take_beat(self.now, &self.config) {
            self.say(&Control::Beat);
        }
        if self.control.is_silent(self.now, &self.config) {
            let why = format!("the peer said nothing for {:?}", self.config.silence);
            self.fail_link(Failure::PeerGone, &why);
        } else if let Some(since) = self.stranded
            && self.now >= since + self.config.without_rails
        {
            let each = self.obstacles();
            let why = format!("no rail was up for {:?}: {each}", self.config.without_rails);
            self.fail_link(Failure::PeerGone, &why);
        }
    }

    /// When something is due by itself.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        if self.ended.is_some() {
            return None;
        }
        let mut due = self.control.next_due(&self.config);
        if let Some(since) = self.stranded {
            due = due.min(since + self.config.without_rails);
        }
        for rail in &self.rails {
            let at = match rail.state {
                State::Trying { since, .. } if self.now < since + HEDGE => since + HEDGE,
                State::Trying { until, .. } => until,
                State::Fencing { since } => since + self.config.silence,
                State::Standby { until } if self.leads => until,
                _ => continue,
            };
            // What is overdue waits for something else than time.
            if at > self.now {
                due = due.min(at);
            }
        }
        for rail in &self.live {
            let connection = self.rails[usize::from(*rail)].connection.as_ref();
            if let Some(connection) = connection.filter(|connection| connection.out > 0) {
                due = due.min(connection.progress.unwrap_or(self.now) + self.config.op_timeout);
            }
        }
        Some(due)
    }

    // The end of the link.

    /// Ends the link from our side: nothing of the peer's reaches our memory any more.
    pub(crate) fn close(&mut self) {
        self.end(Failure::Flushed, "it was closed on this side", Happening::Closed);
        self.settle_end();
    }

    pub(in crate::link) fn fail_link(&mut self, failure: Failure, why: &str) {
        self.end(failure, why, Happening::Ended);
    }

    pub(in crate::link) fn end(&mut self, failure: Failure, why: &str, what: Happening) {
        if self.ended.is_some() {
            return;
        }
        // The peer may be gone already; if it is not, it need not find out by silence.
        let goodbye = match what {
            Happening::Closed => Control::Bye { orderly: true, why: "it was closed".to_owned() },
            _ => Control::Bye { orderly: false, why: why.to_owned() },
        };
        let _ = self.control.send(&goodbye);
        self.ended = Some(Ended { failure, why: why.to_owned() });
        self.completions.stats().end(failure);
        for at in 0..self.rails.len() {
            let rail = &mut self.rails[at];
            if let Some(connection) =
                rail.connection.as_mut().filter(|connection| !connection.closed)
            {
                connection.close();
                self.healthy -= 1;
            }
            rail.state = State::Fencing { since: self.now };
            rail.making.half = None;
        }
        self.active.clear();
        self.journal.note(self.now, what, String::new(), why);
    }

    /// Gives everything back, once the lanes have.
    pub(in crate::link) fn settle_end(&mut self) {
        let Some(ended) = self.ended.clone() else { return };
        if !self.live.is_empty() {
            return;
        }
        let lost: Vec<Lost> =
            self.rails.iter_mut().flat_map(|rail| rail.unconfirmed.drain(..)).collect();
        for Lost { part, failure, work } in lost {
            if let Part { what: PartKind::Whole { token, window }, .. } = part {
                let op = as_it_was(token, window, work);
                let outcome = match failure {
                    Failure::Access => failure,
                    _ => outcome(&ended, &op.work, true),
                };
                self.completions.finish(op, Err(outcome));
            }
        }
        for operation in self.take_all() {
            let known = operation.failure.filter(|_| !operation.begun);
            let outcome =
                known.unwrap_or_else(|| outcome(&ended, &operation.op.work, operation.begun));
            self.completions.finish(operation.op, Err(outcome));
        }
        self.settle_receives();
    }

    /// At a link that is over, gives back the receives that no message will come for.
    pub(in crate::link) fn settle_receives(&mut self) {
        let Some(ended) = &self.ended else { return };
        if !self.live.is_empty() {
            return;
        }
        let failure = match ended.failure {
            Failure::Flushed => {
                self.inbox.throw_away();
                Failure::Flushed
            }
            _ => Failure::PeerGone,
        };
        for receive in self.inbox.take_receives() {
            self.completions.finish(receive, Err(failure));
        }
    }
}

/// What is said of an operation that was in flight when the link ended.
fn outcome(ended: &Ended, work: &Work, begun: bool) -> Failure {
    match (ended.failure, work) {
        (Failure::Flushed, _) => Failure::Flushed,
        // A read that did not come back changed nothing.
        (_, Work::Read { .. }) => Failure::PeerGone,
        _ if begun => Failure::Unknown,
        _ => Failure::PeerGone,
    }
}

/// How long a rail is left alone.
fn rest(class: Class, flaps: u32, config: &crate::link::config::Config) -> Duration {
    match class {
        // Shared memory is not there another time if it was not at first.
        Class::Shm if flaps == 0 => Duration::from_secs(u64::from(u32::MAX)),
        _ => {
            let longer = 1 << flaps.saturating_sub(1).min(16);
            (config.settle * longer).min(config.longest_pause.max(config.settle))
        }
    }
}

/// How often a device may refuse an operation before it is the operation's fault.
const MAX_REFUSALS: u8 = 3;
