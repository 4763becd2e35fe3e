//! The usual case, where it costs least: short writes and reads on one rail with room for them all. They stay
//! where the caller put them, and only the window and the token are changed; and back.

use std::collections::VecDeque;

use super::Core;
use super::post::is_allowed;
use crate::link::operations::{Operations, Part, PartKind, restore};
use crate::link::rails::{RECEIVE, RailLane};
use crate::op::{Done, Op, Work};

impl Core {
    /// Posts everything, if all of it is of that kind.
    #[inline]
    pub(super) fn post_whole(&mut self, ops: &mut VecDeque<Op>) -> Option<usize> {
        let (rail, lane) = self.rails.only_mut()?;
        let count = ops.len();
        let room = lane.free_places();
        let room = room.min(self.config.depth.saturating_sub(self.completions.in_flight()));
        if !self.operations.is_idle() || lane.has_queue() || count > room {
            return None;
        }
        let mut bytes = 0;
        for op in ops.iter() {
            let (Work::Write { imm: None, .. } | Work::Read { .. }) = op.work else { return None };
            let target = op.work.target()?;
            let length = op.work.total();
            let possible = target.window.lane() == self.regions.link()
                && op.work.local().len() <= self.caps.max_pieces
                && length <= self.config.chunk
                && is_allowed(&op.work, target, length);
            lane.window(target.window.region()?).filter(|_| possible)?;
            bytes += length as u64;
        }
        if !lane.has_room(bytes, self.config.window as u64) {
            return None;
        }
        let other = ops.iter_mut().position(|op| !change(op, rail, lane, &mut self.operations));
        if let Some(changed) = other {
            revert(ops, changed, &mut self.operations);
            return None;
        }
        lane.add(count as u32, bytes);
        self.completions.accept(count);
        if let Some(last) = ops.back() {
            self.completions.posted_whole(last.token as u32, count as u64);
        }
        // What the lane has no room for waits there: it is the caller's no more.
        lane.post(ops);
        Some(count)
    }

    /// Gives back what a lane has completed from `from` on, as long as it is of that kind; says where the first is
    /// that is not.
    #[inline]
    pub(super) fn finish_whole(&mut self, rail: u8, from: usize) -> usize {
        let Core { completions, operations, rails, .. } = self;
        let Some(lane) = rails.lane_mut(rail) else { return from };
        completions.finish_in_place(from, |completion| {
            if completion.token & RECEIVE != 0 || completion.outcome != Ok(Done::Placed) {
                return false;
            }
            let Some(whole) = operations.take_whole(completion.token as u32) else { return false };
            lane.remove(whole.bytes);
            restore(&mut completion.work, whole.window);
            completion.token = whole.token;
            true
        })
    }
}

/// Makes the lane's operation of the caller's; `false` if the lane does not reach its target.
#[inline]
fn change(op: &mut Op, rail: u8, lane: &RailLane, operations: &mut Operations) -> bool {
    let proof = lane.proof(&op.work);
    let bytes = op.work.total() as u64;
    let Some(target) = op.work.target_mut() else { return false };
    let Some(there) = target.window.region().and_then(|region| lane.window(region)) else {
        return false;
    };
    let window = std::mem::replace(&mut target.window, there.clone());
    let what = PartKind::Whole { token: op.token, window };
    op.token = u64::from(operations.add_part(Part { rail, bytes, proof, what }));
    true
}

/// Makes the caller's operations of the first `changed` again. Since all were looked at before the first was changed,
/// this is not expected: but were it to happen, nothing would be lost.
#[cold]
fn revert(ops: &mut VecDeque<Op>, changed: usize, operations: &mut Operations) {
    for op in ops.iter_mut().take(changed) {
        if let Some(whole) = operations.take_whole(op.token as u32) {
            restore(&mut op.work, whole.window);
            op.token = whole.token;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::half::register_software;
    use crate::link::config::Config;
    use crate::link::trial::Stage;
    use crate::memory::{Memory, Pages};
    use crate::region::Rights;

    /// Two ends, of which the first has one rail in use.
    fn one_rail() -> Stage {
        let mut stage = Stage::new(1, &Config::default(), true);
        for _ in 0..1000 {
            let now = stage.world.now();
            for core in &mut stage.cores {
                core.attend(now);
                core.poll(now, &mut Vec::new());
            }
            stage.world.advance(Duration::from_micros(500));
            if stage.cores[0].rails.active().len() == 2 {
                stage.cores[0].fail_rail(0, "for the test");
                return stage;
            }
        }
        panic!("{}", stage.cores[0].describe());
    }

    #[test]
    fn what_was_changed_for_a_lane_is_reverted_when_the_rest_cannot_be() {
        let mut stage = one_rail();
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let region = register_software(&memory, Rights::ALL);
        let granted = stage.cores[1].grant(&region).unwrap();
        let window = stage.cores[0].import(&granted).unwrap();
        let core = &mut stage.cores[0];
        let (rail, lane) = core.rails.only_mut().expect("one rail is in use");
        let link = window.region().expect("a window of the link");
        let key = lane.grant(&region).unwrap();
        lane.import(link, Some(key));
        let mut ops = VecDeque::from([
            Op::write(7, region.slice(..8), window.at(0)),
            Op::read(8, region.slice(..8), window.at(8)),
            Op::send(9, region.slice(..8)),
        ]);
        let operations = &mut core.operations;
        let other = ops.iter_mut().position(|op| !change(op, rail, lane, operations));
        assert_eq!(other, Some(2), "a send has no target");
        let of_link = |op: &Op| op.work.target().map(|at| at.window.lane() == window.lane());
        assert_eq!([&ops[0], &ops[1]].map(of_link), [Some(false); 2], "the lane's windows");
        revert(&mut ops, 2, operations);
        assert_eq!([&ops[0], &ops[1]].map(of_link), [Some(true); 2]);
        assert_eq!(ops.iter().map(|op| op.token).collect::<Vec<_>>(), [7, 8, 9]);
        assert!((0..4).all(|part| operations.take_part(part).is_none()), "no row is left");
    }
}
