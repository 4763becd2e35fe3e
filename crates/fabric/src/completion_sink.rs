//! How operations come back: counted, and as completions.

use crate::op::{Completion, Done, Failure, Op};
use crate::stats::Stats;

/// Where operations that are over go.
pub(crate) struct Over<'a> {
    pub(crate) stats: &'a Stats,
    pub(crate) done: &'a mut Vec<Completion>,
}

impl Over<'_> {
    #[inline]
    pub(crate) fn add(&mut self, op: Op, outcome: Result<Done, Failure>) {
        let completion = Completion { token: op.token, outcome, work: op.work };
        self.stats.count(&completion);
        self.done.push(completion);
    }
}
