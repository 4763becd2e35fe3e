//! Completions for the caller, the number of operations in flight, and sampled latencies.
//!
//! An operation is in flight from when it is accepted until it is finished, which happens once. Receives wait
//! in the inbox and are not counted.

use std::sync::Arc;
use std::time::Instant;

use crate::op::{Completion, Done, Failure, Op, Work};
use crate::stats::{OPS_PER_LATENCY_SAMPLE, Stats};

pub(super) struct CompletionQueue {
    /// The caller's unfinished operations, not counting receives.
    in_flight: usize,
    done: Vec<Completion>,
    /// A reused buffer for a lane's completions, while it is polled and while they are handled.
    batch: Vec<Completion>,
    stats: Arc<Stats>,
    /// The number of operations posted.
    posted: u64,
    /// The lane's operation that is timed, and when it was posted.
    timed: Option<(u32, Instant)>,
}

impl CompletionQueue {
    pub(super) fn new() -> Self {
        CompletionQueue {
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

    /// Whether no completion waits for the caller.
    pub(super) fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    // Posting.

    /// Counts operations as in flight.
    #[inline]
    pub(super) fn accept(&mut self, count: usize) {
        self.in_flight += count;
    }

    /// Counts operations posted to a lane whole, the last of them as this `LaneOp`. One in [`OPS_PER_LATENCY_SAMPLE`] is timed, and only one at
    /// a time.
    #[inline]
    pub(super) fn posted_whole(&mut self, last: u32, count: u64) {
        self.posted += count;
        let due = self.posted / OPS_PER_LATENCY_SAMPLE
            != (self.posted - count) / OPS_PER_LATENCY_SAMPLE
            || self.posted == count;
        if due && self.timed.is_none() {
            self.timed = Some((last, Instant::now()));
        }
    }

    /// Counts an operation that is not one of a lane; returns the time if it is to be timed.
    pub(super) fn posted_in_steps(&mut self) -> Option<Instant> {
        self.posted += 1;
        self.posted.is_multiple_of(OPS_PER_LATENCY_SAMPLE).then(Instant::now)
    }

    // Completing.

    /// Collects directly into the caller's vector if no completion waits here. [`CompletionQueue::deliver_to`] must follow, with
    /// the returned value.
    #[inline]
    pub(super) fn collect_into(&mut self, caller: &mut Vec<Completion>) -> bool {
        let direct = self.done.is_empty();
        if direct {
            std::mem::swap(&mut self.done, caller);
        }
        direct
    }

    /// Hands the collected completions to the caller.
    #[inline]
    pub(super) fn deliver_to(&mut self, caller: &mut Vec<Completion>, direct: bool) {
        if direct {
            std::mem::swap(&mut self.done, caller);
        } else {
            caller.append(&mut self.done);
        }
    }

    /// The collected completions.
    #[inline]
    pub(super) fn buffer(&mut self) -> &mut Vec<Completion> {
        &mut self.done
    }

    /// Finishes a lane's completions in place, starting at `from`, as long as `restore` turns them into the caller's
    /// operations; returns the index of the first that it does not.
    #[inline]
    pub(super) fn finish_in_place(
        &mut self,
        from: usize,
        mut restore: impl FnMut(&mut Completion) -> bool,
    ) -> usize {
        let CompletionQueue { done, in_flight, stats, timed, .. } = self;
        let mut finished = from;
        for completion in &mut done[from..] {
            let lane_op_id = completion.op_id;
            if !restore(completion) {
                return finished;
            }
            if let Some((_, started)) =
                timed.take_if(|(lane_op, _)| u64::from(*lane_op) == lane_op_id)
            {
                stats.add_latency(started.elapsed());
            }
            *in_flight -= 1;
            stats.count(completion);
            finished += 1;
        }
        finished
    }

    /// An empty buffer for a lane's completions. [`CompletionQueue::append`] or [`CompletionQueue::return_lane_buffer`] must follow.
    #[inline]
    pub(super) fn take_lane_buffer(&mut self) -> Vec<Completion> {
        std::mem::take(&mut self.batch)
    }

    #[inline]
    pub(super) fn return_lane_buffer(&mut self, buffer: Vec<Completion>) {
        self.batch = buffer;
    }

    /// Appends a lane's completions, to be finished; returns the index of the first.
    #[inline]
    pub(super) fn append(&mut self, mut buffer: Vec<Completion>) -> usize {
        let from = self.done.len();
        match from {
            0 => std::mem::swap(&mut self.done, &mut buffer),
            _ => self.done.append(&mut buffer),
        }
        self.batch = buffer;
        from
    }

    /// Takes out a lane's completions, starting at `from`. [`CompletionQueue::return_lane_buffer`] must follow.
    pub(super) fn take_batch(&mut self, from: usize) -> Vec<Completion> {
        let mut batch = std::mem::take(&mut self.batch);
        match from {
            0 => std::mem::swap(&mut batch, &mut self.done),
            _ => batch.extend(self.done.drain(from..)),
        }
        batch
    }

    /// A lane's operation has completed: if it was timed and `placed`, records its latency.
    #[inline]
    pub(super) fn stop_time(&mut self, lane_op: u32, placed: bool) {
        if let Some((_, started)) = self.timed.take_if(|(timed, _)| *timed == lane_op)
            && placed
        {
            self.stats.add_latency(started.elapsed());
        }
    }

    /// As [`CompletionQueue::finish`], for an operation timed since `started`.
    #[inline]
    pub(super) fn finish_timed(
        &mut self,
        op: Op,
        outcome: Result<Done, Failure>,
        started: Option<Instant>,
    ) {
        if let (Some(started), Ok(_)) = (started, &outcome) {
            self.stats.add_latency(started.elapsed());
        }
        self.finish(op, outcome);
    }

    /// Finishes an operation of the caller.
    #[inline]
    pub(super) fn finish(&mut self, op: Op, outcome: Result<Done, Failure>) {
        let completion = Completion { op_id: op.op_id, outcome, work: op.work };
        if !matches!(completion.work, Work::Receive { .. }) {
            self.in_flight -= 1;
        }
        self.stats.count(&completion);
        self.done.push(completion);
    }
}
