//! What is over and waits for the caller, the count of what is not over yet, and the time that some of it takes.
//!
//! An operation is counted in flight from when it is accepted until it is finished, which happens once. Receives wait
//! in the inbox and are not counted.

use std::sync::Arc;
use std::time::Instant;

use crate::op::{Completion, Done, Failure, Op, Work};
use crate::stats::{SAMPLE, Stats};

pub(super) struct Completions {
    /// Operations of the caller's that are not over, receives apart.
    in_flight: usize,
    done: Vec<Completion>,
    /// Room for a lane's completions while they are sorted.
    batch: Vec<Completion>,
    stats: Arc<Stats>,
    /// How many operations were posted.
    posted: u64,
    /// The operation of a lane that is timed, and since when.
    timed: Option<(u32, Instant)>,
}

impl Completions {
    pub(super) fn new() -> Self {
        Completions {
            in_flight: 0,
            done: Vec::new(),
            batch: Vec::new(),
            stats: Arc::default(),
            posted: 0,
            timed: None,
        }
    }

    pub(super) fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether nothing waits for the caller.
    pub(super) fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    // Operations come in.

    /// So many are in flight from now on.
    #[inline]
    pub(super) fn accept(&mut self, count: usize) {
        self.in_flight += count;
    }

    /// So many went to a lane as they are, the last of them as this operation of it. One in some is timed, and one at a
    /// time.
    #[inline]
    pub(super) fn posted_whole(&mut self, last: u32, count: u64) {
        self.posted += count;
        let due = self.posted / SAMPLE != (self.posted - count) / SAMPLE || self.posted == count;
        if due && self.timed.is_none() {
            self.timed = Some((last, Instant::now()));
        }
    }

    /// One was posted that is more than one operation of a lane: when, if it is timed.
    pub(super) fn posted_in_pieces(&mut self) -> Option<Instant> {
        self.posted += 1;
        self.posted.is_multiple_of(SAMPLE).then(Instant::now)
    }

    // They come back.

    /// Collects straight into the caller's vector, where nothing waits already. [`Completions::give`] must follow, with
    /// the answer.
    #[inline]
    pub(super) fn collect_into(&mut self, caller: &mut Vec<Completion>) -> bool {
        let direct = self.done.is_empty();
        if direct {
            std::mem::swap(&mut self.done, caller);
        }
        direct
    }

    /// Gives the caller what was collected.
    #[inline]
    pub(super) fn give(&mut self, caller: &mut Vec<Completion>, direct: bool) {
        if direct {
            std::mem::swap(&mut self.done, caller);
        } else {
            caller.append(&mut self.done);
        }
    }

    /// Where lanes put what they have completed.
    #[inline]
    pub(super) fn buffer(&mut self) -> &mut Vec<Completion> {
        &mut self.done
    }

    /// Finishes in their places what a lane has completed from `from` on, as long as `restore` makes the caller's
    /// operation of it; says where the first is that it does not know.
    #[inline]
    pub(super) fn finish_in_place(
        &mut self,
        from: usize,
        mut restore: impl FnMut(&mut Completion) -> bool,
    ) -> usize {
        let Completions { done, in_flight, stats, timed, .. } = self;
        let mut finished = from;
        for completion in &mut done[from..] {
            let of_lane = completion.token;
            if !restore(completion) {
                return finished;
            }
            if let Some((_, begun)) = timed.take_if(|(part, _)| u64::from(*part) == of_lane) {
                stats.time(begun.elapsed());
            }
            *in_flight -= 1;
            stats.count(completion);
            finished += 1;
        }
        finished
    }

    /// Takes out what a lane has completed from `from` on, to be sorted. [`Completions::sorted`] must follow.
    pub(super) fn take_batch(&mut self, from: usize) -> Vec<Completion> {
        let mut batch = std::mem::take(&mut self.batch);
        match from {
            0 => std::mem::swap(&mut batch, &mut self.done),
            _ => batch.extend(self.done.drain(from..)),
        }
        batch
    }

    /// Gives the room of a batch back.
    pub(super) fn sorted(&mut self, batch: Vec<Completion>) {
        self.batch = batch;
    }

    /// An operation of a lane is over: if it was timed, its time counts if it was `placed`.
    #[inline]
    pub(super) fn stop_time(&mut self, part: u32, placed: bool) {
        if let Some((_, begun)) = self.timed.take_if(|(timed, _)| *timed == part)
            && placed
        {
            self.stats.time(begun.elapsed());
        }
    }

    /// As [`Completions::finish`], of one that was timed since `begun`.
    pub(super) fn finish_timed(
        &mut self,
        op: Op,
        outcome: Result<Done, Failure>,
        begun: Option<Instant>,
    ) {
        if let (Some(begun), Ok(_)) = (begun, &outcome) {
            self.stats.time(begun.elapsed());
        }
        self.finish(op, outcome);
    }

    /// An operation of the caller's is over.
    #[inline]
    pub(super) fn finish(&mut self, op: Op, outcome: Result<Done, Failure>) {
        let completion = Completion { token: op.token, outcome, work: op.work };
        if !matches!(completion.work, Work::Receive { .. }) {
            self.in_flight -= 1;
        }
        self.stats.count(&completion);
        self.done.push(completion);
    }
}
