//! Batches with missing answers, which wait for bytes of the client, or for the disk.
//!
//! Each missing answer of a draft corresponds to one fetch, or one write to the disk.

use kv_proto::wire::Answer;

use super::disk_requests::DiskRequests;
use super::draft::Draft;
use super::fetches::{AnswerIndex, Fetches};
use crate::slab::Slab;
use crate::workers::context::WorkerContext;

#[derive(Default)]
pub(super) struct Pending {
    drafts: Slab<Draft>,
    pub(super) fetches: Fetches,
    pub(super) disk: DiskRequests,
}

impl Pending {
    /// The number of batches with missing answers.
    pub(super) fn batches(&self) -> usize {
        self.drafts.len()
    }

    /// Whether nothing is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.drafts.len() + self.fetches.len() + self.disk.outstanding() == 0
    }

    /// Adds a draft with this number of missing answers.
    pub(super) fn insert(&mut self, mut draft: Draft, missing: usize) -> u32 {
        draft.missing = missing;
        self.drafts.insert(draft)
    }

    /// Sets a missing answer; returns the draft after the last one.
    pub(super) fn answer(&mut self, target: AnswerIndex, answer: Answer) -> Option<Draft> {
        let draft = self.drafts.get_mut(target.batch)?;
        draft.answers[target.index] = answer;
        draft.missing -= 1;
        if draft.missing > 0 {
            return None;
        }
        self.drafts.remove(target.batch)
    }

    /// Recycles drafts that will not be answered.
    pub(super) fn recycle(&mut self, context: &mut WorkerContext) {
        self.drafts.drain().for_each(|draft| context.recycle(draft));
    }
}
