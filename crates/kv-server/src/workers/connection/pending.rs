//! Batches with missing answers, which wait for bytes of the client, or for the disk.
//!
//! Each missing answer corresponds to one fetch, or one write to the disk.

use kv_proto::wire::Answer;

use super::batch_answers::BatchAnswers;
use super::disk_requests::DiskRequests;
use super::fetches::{AnswerIndex, Fetches};
use crate::slab::Slab;
use crate::workers::context::WorkerContext;

#[derive(Default)]
pub(super) struct Pending {
    spare_batch_answers: Slab<BatchAnswers>,
    pub(super) fetches: Fetches,
    pub(super) disk: DiskRequests,
}

impl Pending {
    /// The number of batches with missing answers.
    pub(super) fn batches(&self) -> usize {
        self.spare_batch_answers.len()
    }

    /// Whether nothing is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.spare_batch_answers.len() + self.fetches.len() + self.disk.outstanding() == 0
    }

    /// Adds a batch with this number of missing answers.
    pub(super) fn insert(&mut self, mut batch_answers: BatchAnswers, missing: usize) -> u32 {
        batch_answers.missing = missing;
        self.spare_batch_answers.insert(batch_answers)
    }

    /// Sets a missing answer; returns the batch after the last one.
    pub(super) fn answer(&mut self, target: AnswerIndex, answer: Answer) -> Option<BatchAnswers> {
        let batch_answers = self.spare_batch_answers.get_mut(target.batch)?;
        batch_answers.answers[target.index] = answer;
        batch_answers.missing -= 1;
        if batch_answers.missing > 0 {
            return None;
        }
        self.spare_batch_answers.remove(target.batch)
    }

    /// Recycles answers that will not be answered.
    pub(super) fn recycle(&mut self, context: &mut WorkerContext) {
        self.spare_batch_answers.drain().for_each(|batch_answers| context.recycle(batch_answers));
    }
}
