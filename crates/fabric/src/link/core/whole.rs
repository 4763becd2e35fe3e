//! The usual case, where it costs least: short writes and reads on one rail with room for them all. They stay
//! where the caller put them, and only the window and the token are changed; and back.

use std::collections::VecDeque;

use super::{Core, RECEIVE, is_allowed};
use crate::link::operations::part::{NEVER, Part, PartKind, take_whole};
use crate::link::rails::rail::Key;
use crate::op::{Done, Op, Work};

impl Core {
    /// Posts everything, if all of it is of that kind.
    #[inline]
    pub(in crate::link) fn post_whole(&mut self, ops: &mut VecDeque<Op>) -> Option<usize> {
        let [rail] = self.active[..] else { return None };
        let busy = !self.waiting.is_empty() || !self.again.is_empty();
        let connection = self.rails[usize::from(rail)].connection.as_mut()?;
        let room = (connection.depth - connection.out.min(connection.depth)) as usize;
        let room = room.min(self.config.depth.saturating_sub(self.completions.in_flight()));
        if busy || !connection.queue.is_empty() || ops.len() > room {
            return None;
        }
        let (most, count) = (self.config.chunk, ops.len());
        let mut bytes = 0;
        for op in ops.iter() {
            let (Work::Write { imm: None, .. } | Work::Read { .. }) = op.work else { return None };
            let target = op.work.target()?;
            let region = target.window.region()?;
            let length = op.work.total();
            let possible = target.window.lane() == self.number
                && op.work.local().len() <= self.caps.max_pieces
                && length <= most
                && is_allowed(&op.work, target, length);
            let Some(Key::Open(_)) = connection.key(region).filter(|_| possible) else {
                return None;
            };
            bytes += length as u64;
        }
        if !connection.has_room(bytes, self.config.window as u64) {
            return None;
        }
        for op in ops.iter_mut() {
            let proof = if let Work::Read { .. } = op.work { NEVER } else { connection.sent + 1 };
            let bytes = op.work.total() as u64;
            let target = op.work.target_mut()?;
            let region = target.window.region()?;
            let Some(Key::Open(window)) = connection.key(region) else { return None };
            let window = std::mem::replace(&mut target.window, window.clone());
            let what = PartKind::Whole { token: op.token, window };
            op.token = u64::from(self.parts.insert(Part { rail, bytes, proof, what }));
        }
        if connection.out == 0 {
            connection.progress = None;
        }
        connection.out += count as u32;
        connection.bytes_out += bytes;
        self.completions.accept(count);
        if let Some(last) = ops.back().map(|op| op.token as u32) {
            self.completions.posted_whole(last, count as u64);
        }
        let connection = self.rails[usize::from(rail)].connection.as_mut()?;
        connection.lane.post(ops);
        // What the lane has no room for waits here: it is the caller's no more.
        connection.queue.append(ops);
        Some(count)
    }

    /// Gives back what a lane has completed from `from` on, as long as it is of that kind; says where the first is
    /// that is not.
    #[inline]
    pub(in crate::link) fn finish_whole(&mut self, rail: u8, from: usize) -> usize {
        let Core { completions, parts, rails, .. } = self;
        let Some(connection) = &mut rails[usize::from(rail)].connection else { return from };
        completions.finish_in_place(from, |completion| {
            if completion.token & RECEIVE != 0 || completion.outcome != Ok(Done::Placed) {
                return false;
            }
            let Some(whole) = take_whole(parts, completion.token as u32) else { return false };
            connection.out -= 1;
            connection.bytes_out -= whole.bytes;
            if let Some(target) = completion.work.target_mut() {
                target.window = whole.window;
            }
            completion.token = whole.token;
            true
        })
    }
}
