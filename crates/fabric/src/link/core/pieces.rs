//! Writes and reads in pieces: each piece takes the rail with the least load.

use super::Core;
use crate::link::operations::{PartKind, Piece};
use crate::link::rails::RailChoice;
use crate::op::Failure;
use crate::remote::Window;

impl Core {
    /// Posts pieces of dead lanes again, then pieces of waiting operations.
    pub(super) fn post_pieces(&mut self) {
        while let Some(piece) = self.operations.first_retry() {
            match self.try_piece(&piece) {
                PieceResult::Posted => {}
                PieceResult::Full | PieceResult::KeyPending => break,
                PieceResult::Refused => self.abandon(&piece, Failure::Access),
            }
            self.operations.drop_retry();
        }
        while let Some(piece) = self.operations.cut(self.config.chunk as u64) {
            match self.try_piece(&piece) {
                PieceResult::Posted => self.operations.drop_cut(),
                PieceResult::Full => return self.operations.uncut(&piece),
                PieceResult::KeyPending => {
                    self.operations.uncut(&piece);
                    self.operations.wait_for_key();
                }
                PieceResult::Refused => self.abandon(&piece, Failure::Access),
            }
        }
    }

    fn try_piece(&mut self, piece: &Piece) -> PieceResult {
        let Some(operation) = self.operations.get(piece.operation) else {
            return PieceResult::Refused;
        };
        let region = operation.region();
        match self.rails.choose(region, piece.length, self.config.max_in_flight as u64) {
            RailChoice::Rail(rail, window) => {
                self.post_piece(rail, *piece, window);
                PieceResult::Posted
            }
            RailChoice::Full => PieceResult::Full,
            RailChoice::KeyPending if region.is_some_and(|region| self.regions.is_gone(region)) => {
                PieceResult::Refused
            }
            RailChoice::KeyPending => PieceResult::KeyPending,
            RailChoice::Refused => PieceResult::Refused,
        }
    }

    pub(super) fn post_piece(&mut self, rail: u8, piece: Piece, window: Window) {
        let Some(operation) = self.operations.get_mut(piece.operation) else { return };
        let work = operation.start_piece(&piece, window);
        self.post_part(rail, piece.length, work, PartKind::Piece(piece));
    }

    /// A piece cannot be posted, so that its operation fails.
    pub(super) fn abandon(&mut self, piece: &Piece, failure: Failure) {
        self.operations.abandon(piece, failure);
        self.progress(piece.operation);
    }
}

/// The result of posting a piece.
enum PieceResult {
    Posted,
    Full,
    KeyPending,
    Refused,
}
