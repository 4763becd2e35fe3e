//! Writes and reads in chunks: each chunk takes the rail with the least load.

use super::Core;
use crate::link::operations::{Chunk, LaneOpKind};
use crate::link::rails::RailChoice;
use crate::op::Failure;
use crate::remote::Window;

impl Core {
    /// Posts chunks of dead lanes again, then chunks of waiting operations.
    pub(super) fn post_chunks(&mut self) {
        while let Some(chunk) = self.operations.first_retry() {
            match self.try_chunk(&chunk) {
                ChunkResult::Posted => {}
                ChunkResult::Full | ChunkResult::KeyPending => break,
                ChunkResult::Refused => self.abandon(&chunk, Failure::Access),
            }
            self.operations.drop_retry();
        }
        while let Some(chunk) = self.operations.next_chunk(self.config.max_chunk as u64) {
            match self.try_chunk(&chunk) {
                ChunkResult::Posted => self.operations.drop_split(),
                ChunkResult::Full => return self.operations.undo_chunk(&chunk),
                ChunkResult::KeyPending => {
                    self.operations.undo_chunk(&chunk);
                    self.operations.wait_for_key();
                }
                ChunkResult::Refused => self.abandon(&chunk, Failure::Access),
            }
        }
    }

    fn try_chunk(&mut self, chunk: &Chunk) -> ChunkResult {
        let Some(operation) = self.operations.get(chunk.operation) else {
            return ChunkResult::Refused;
        };
        let region = operation.region();
        match self.rails.choose(region, chunk.length, self.config.max_in_flight as u64) {
            RailChoice::Rail(rail, window) => {
                self.post_chunk(rail, *chunk, window);
                ChunkResult::Posted
            }
            RailChoice::Full => ChunkResult::Full,
            RailChoice::KeyPending if region.is_some_and(|region| self.regions.is_gone(region)) => {
                ChunkResult::Refused
            }
            RailChoice::KeyPending => ChunkResult::KeyPending,
            RailChoice::Refused => ChunkResult::Refused,
        }
    }

    pub(super) fn post_chunk(&mut self, rail: u8, chunk: Chunk, window: Window) {
        let Some(operation) = self.operations.get_mut(chunk.operation) else { return };
        let work = operation.start_chunk(&chunk, window);
        self.post_lane_op(rail, chunk.length, work, LaneOpKind::Chunk(chunk));
    }

    /// A chunk cannot be posted, so that its operation fails.
    pub(super) fn abandon(&mut self, chunk: &Chunk, failure: Failure) {
        self.operations.abandon(chunk, failure);
        self.progress(chunk.operation);
    }
}

/// The result of posting a chunk.
enum ChunkResult {
    Posted,
    Full,
    KeyPending,
    Refused,
}
