//! Batches with missing answers, which wait for bytes of the client, or for the disk.
//!
//! Each missing answer corresponds to one fetch of put data, or one write to the disk.

use kv_proto::wire::Answer;

use super::batch_answers::BatchAnswers;
use super::disk_requests::DiskRequests;
use super::put_fetches::{AnswerIndex, PutFetches};
use crate::slab::Slab;
use crate::workers::context::WorkerContext;

#[derive(Default)]
pub(super) struct Pending {
    batches: Slab<Box<BatchAnswers>>,
    pub(super) put_fetches: PutFetches,
    pub(super) disk: DiskRequests,
}

impl Pending {
    /// The number of batches with missing answers.
    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Whether nothing is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.len() + self.put_fetches.len() + self.disk.outstanding() == 0
    }

    /// Adds a batch with this number of missing answers.
    pub(super) fn insert(&mut self, mut batch_answers: Box<BatchAnswers>, missing: usize) -> u32 {
        batch_answers.missing = missing;
        self.batches.insert(batch_answers)
    }

    /// Sets a missing answer; returns the batch after the last one.
    pub(super) fn answer(
        &mut self,
        target: AnswerIndex,
        answer: Answer,
    ) -> Option<Box<BatchAnswers>> {
        let batch_answers = self.batches.get_mut(target.batch)?;
        batch_answers.answers[target.index] = answer;
        batch_answers.missing -= 1;
        if batch_answers.missing > 0 {
            return None;
        }
        self.batches.remove(target.batch)
    }

    /// Recycles batches that will not be answered.
    pub(super) fn recycle(&mut self, context: &mut WorkerContext) {
        self.batches.drain().for_each(|batch_answers| context.recycle(batch_answers));
    }
}
