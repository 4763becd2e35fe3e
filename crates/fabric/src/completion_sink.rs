//! Counts finished operations and collects their completions.

use crate::op::{Completion, Done, Failure, Op};
use crate::stats::Stats;

/// Takes finished operations.
pub(crate) struct CompletionSink<'a> {
    pub(crate) stats: &'a Stats,
    pub(crate) done: &'a mut Vec<Completion>,
}

impl CompletionSink<'_> {
    #[inline]
    pub(crate) fn add(&mut self, op: Op, outcome: Result<Done, Failure>) {
        let completion = Completion { op_id: op.op_id, outcome, work: op.work };
        self.stats.count(&completion);
        self.done.push(completion);
    }
}
