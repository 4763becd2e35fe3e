//! The fast path: short writes and reads on a single rail with capacity for all of them. They stay
//! in the caller's queue; only window and id are replaced, and restored on completion. Sends of one message each on a single
//! rail with packets. And receives for which no message waits.

use std::collections::VecDeque;

use super::Core;
use super::post::is_allowed;
use crate::link::messages::SentMessage;
use crate::link::operations::{LaneOp, LaneOpKind, Operations, restore_window};
use crate::link::protocol::header::{Body, Header, MessageClass};
use crate::link::rails::{RECEIVE_BIT, RailLane};
use crate::op::{Done, Op, Work};

impl Core {
    /// Posts all operations, if all qualify.
    #[inline]
    pub(super) fn post_whole(&mut self, ops: &mut VecDeque<Op>) {
        // Otherwise they are posted one by one.
        let _ = self.try_whole(ops);
    }

    #[inline]
    fn try_whole(&mut self, ops: &mut VecDeque<Op>) -> Option<()> {
        let (rail, lane) = self.rails.single_active_mut()?;
        let count = ops.len();
        let capacity = lane.free_entries();
        let capacity = capacity.min(self.config.depth.saturating_sub(self.completions.in_flight()));
        if !self.operations.has_no_waiting_chunks() || lane.has_queue() || count > capacity {
            return None;
        }
        let mut bytes = 0;
        for op in ops.iter() {
            let (Work::Write { imm: None, .. } | Work::Read { .. }) = op.work else { return None };
            let target = op.work.target()?;
            let length = op.work.total();
            let possible = target.window.lane() == self.regions.link()
                && op.work.local().len() <= self.caps.max_slices
                && length <= self.config.max_chunk
                && is_allowed(&op.work, target, length);
            lane.window(target.window.region()?).filter(|_| possible)?;
            bytes += length as u64;
        }
        if !lane.has_capacity(bytes, self.config.max_in_flight as u64) {
            return None;
        }
        let other = ops.iter_mut().position(|op| !retarget(op, rail, lane, &mut self.operations));
        if let Some(changed) = other {
            revert(ops, changed, &mut self.operations);
            return None;
        }
        lane.add(count as u32, bytes);
        self.completions.accept(count);
        if let Some(last) = ops.back() {
            self.completions.posted_whole(last.op_id as u32, count as u64);
        }
        // Operations that do not fit into the lane wait in its queue: they are accepted.
        lane.post(ops);
        Some(())
    }

    /// Sends those operations at the front that are sends of one message each, if nothing is before them and the only rail in use
    /// takes messages in packets.
    #[inline]
    pub(super) fn post_short_sends(&mut self, ops: &mut VecDeque<Op>) {
        let Some((_, lane)) = self.rails.single_active_mut() else { return };
        let peer_max_payload = self.messages.peer_max_payload();
        let (outgoing, inbox) = self.messages.for_callers();
        if lane.slots().is_some() || !outgoing.is_empty() {
            return;
        }
        while let Some(Op { work: Work::Send { from, imm }, .. }) = ops.front() {
            let (imm, total) = (*imm, from.total() as u64);
            if total > peer_max_payload
                || from.as_slice().len() > self.caps.max_slices
                || self.completions.in_flight() >= self.config.depth
                || !outgoing.may_send()
                || !lane.has_message_capacity(MessageClass::Caller)
            {
                break;
            }
            let (class, sequence) = (MessageClass::Caller, outgoing.next());
            let body = Body::Fragment { total, offset: 0, imm };
            let taken = inbox.report_taken();
            let header = Header { sequence: sequence as u32, freed: [0; 2], taken, body };
            let what = LaneOpKind::Message { class, sequence };
            if !lane.send_packet(header, what, (from.as_slice(), 0, total)) {
                break;
            }
            let Some(op) = ops.pop_front() else { break };
            if let Some(started) = self.completions.posted_in_steps() {
                outgoing.time_next(started);
            }
            outgoing.assign_number(SentMessage::Send(op));
            self.completions.accept(1);
        }
        lane.post_queue();
    }

    /// Posts receives for which no message waits.
    #[inline]
    pub(super) fn post_waiting_receives(&mut self, ops: &mut VecDeque<Op>) {
        let inbox = self.messages.inbox_mut();
        if self.ended.is_some() || inbox.has_messages() {
            return;
        }
        while let Some(Op { work: Work::Receive { into }, .. }) = ops.front()
            && into.as_slice().len() <= self.caps.max_slices
            && inbox.receives() < self.config.max_receives
        {
            inbox.post(ops.pop_front().expect("just seen"));
        }
    }

    /// Finishes a lane's completions, starting at `from`, as long as they are whole operations; returns the index of the
    /// first that is not.
    #[inline]
    pub(super) fn finish_whole(&mut self, rail: u8, from: usize) -> usize {
        let Core { completions, operations, rails, .. } = self;
        let Some(lane) = rails.lane_mut(rail) else { return from };
        completions.finish_in_place(from, |completion| {
            if completion.op_id & RECEIVE_BIT != 0 || completion.outcome != Ok(Done::Placed) {
                return false;
            }
            let Some(whole) = operations.take_whole(completion.op_id as u32) else { return false };
            lane.remove(whole.bytes);
            restore_window(&mut completion.work, whole.window);
            completion.op_id = whole.op_id;
            true
        })
    }
}

/// Turns the caller's operation into the lane's; `false` if the lane does not reach its target.
#[inline]
fn retarget(op: &mut Op, rail: u8, lane: &RailLane, operations: &mut Operations) -> bool {
    let confirmed_at = lane.confirmed_at(&op.work);
    let bytes = op.work.total() as u64;
    let Some(target) = op.work.target_mut() else { return false };
    let Some(there) = target.window.region().and_then(|region| lane.window(region)) else {
        return false;
    };
    let window = std::mem::replace(&mut target.window, there.clone());
    let what = LaneOpKind::Whole { op_id: op.op_id, window };
    op.op_id = u64::from(operations.add_lane_op(LaneOp { rail, bytes, confirmed_at, what }));
    true
}

/// Restores the first `changed` operations. This is not expected, since all were checked before the first was
/// changed; if it happens, nothing is lost.
#[cold]
fn revert(ops: &mut VecDeque<Op>, changed: usize, operations: &mut Operations) {
    for op in ops.iter_mut().take(changed) {
        if let Some(whole) = operations.take_whole(op.op_id as u32) {
            restore_window(&mut op.work, whole.window);
            op.op_id = whole.op_id;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::link::config::Config;
    use crate::link::simulation::SimLink;
    use crate::memory::{Memory, Pages};
    use crate::region::Rights;
    use crate::setup::register_software;

    /// Two ends, the first with one rail in use.
    fn one_rail() -> SimLink {
        let mut sim = SimLink::new(1, &Config::default(), true);
        for _ in 0..1000 {
            let now = sim.world.now();
            for core in &mut sim.cores {
                core.maintain(now);
                core.poll(now, &mut Vec::new());
            }
            sim.world.advance(Duration::from_micros(500));
            if sim.cores[0].rails.active().len() == 2 {
                sim.cores[0].fail_rail(0, "for the test");
                return sim;
            }
        }
        panic!("{}", sim.cores[0].describe());
    }

    #[test]
    fn changed_operations_are_reverted_when_a_later_one_does_not_qualify() {
        let mut sim = one_rail();
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let region = register_software(&memory, Rights::ALL);
        let granted = sim.cores[1].grant(&region).unwrap();
        let window = sim.cores[0].import(&granted).unwrap();
        let core = &mut sim.cores[0];
        let (rail, lane) = core.rails.single_active_mut().expect("one rail is in use");
        let link = window.region().expect("a window of the link");
        let key = lane.grant(&region).unwrap();
        lane.import(link, Some(key));
        let mut ops = VecDeque::from([
            Op::write(7, region.slice(..8), window.at(0)),
            Op::read(8, region.slice(..8), window.at(8)),
            Op::send(9, region.slice(..8)),
        ]);
        let operations = &mut core.operations;
        let other = ops.iter_mut().position(|op| !retarget(op, rail, lane, operations));
        assert_eq!(other, Some(2), "a send has no target");
        let of_link = |op: &Op| op.work.target().map(|at| at.window.lane() == window.lane());
        assert_eq!([&ops[0], &ops[1]].map(of_link), [Some(false); 2], "the lane's windows");
        revert(&mut ops, 2, operations);
        assert_eq!([&ops[0], &ops[1]].map(of_link), [Some(true); 2]);
        assert_eq!(ops.iter().map(|op| op.op_id).collect::<Vec<_>>(), [7, 8, 9]);
        assert!((0..4).all(|lane_op| operations.take_lane_op(lane_op).is_none()), "no row is left");
    }
}
