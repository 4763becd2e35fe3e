//! Batches that are not answered yet: some of their answers wait for bytes of the client's, or for the disk.
//!
//! A draft is here while answers of it are missing; each of those is one fetch, or one write at the disk.

use kv_proto::wire::Answer;

use super::disk_requests::DiskRequests;
use super::draft::Draft;
use super::fetches::{AnswerIndex, Fetches};
use crate::rows::Rows;
use crate::workers::context::WorkerContext;

#[derive(Default)]
pub(super) struct Pending {
    drafts: Rows<Draft>,
    pub(super) fetches: Fetches,
    pub(super) disk: DiskRequests,
}

impl Pending {
    /// How many batches wait for answers.
    pub(super) fn batches(&self) -> usize {
        self.drafts.len()
    }

    /// Whether nothing is waited for.
    pub(super) fn is_empty(&self) -> bool {
        self.drafts.len() + self.fetches.len() + self.disk.outstanding() == 0
    }

    /// Keeps a draft that so many answers are missing of.
    pub(super) fn insert(&mut self, mut draft: Draft, missing: usize) -> u32 {
        draft.missing = missing;
        self.drafts.insert(draft)
    }

    /// An answer that a batch waits for; returns the draft with its last one.
    pub(super) fn answer(&mut self, target: AnswerIndex, answer: Answer) -> Option<Draft> {
        let draft = self.drafts.get_mut(target.batch)?;
        draft.answers[target.index] = answer;
        draft.missing -= 1;
        if draft.missing > 0 {
            return None;
        }
        self.drafts.remove(target.batch)
    }

    /// Gives back what will never be answered.
    pub(super) fn recycle(&mut self, context: &mut WorkerContext) {
        self.drafts.drain().for_each(|draft| context.recycle(draft));
    }
}
