//! Writes and reads in pieces: each takes the rail with the least to do.

use super::Core;
use crate::link::operations::{PartKind, Piece};
use crate::link::rails::Choice;
use crate::op::Failure;
use crate::remote::Window;

impl Core {
    /// Gives rails the pieces that are to be done again, and then those that are cut from what waits.
    pub(super) fn pump_pieces(&mut self) {
        while let Some(piece) = self.operations.first_again() {
            match self.try_piece(&piece) {
                Tried::Begun => {}
                Tried::Wait | Tried::Keyless => break,
                Tried::Refused => self.abandon(&piece, Failure::Access),
            }
            self.operations.drop_again();
        }
        while let Some(piece) = self.operations.cut(self.config.chunk as u64) {
            match self.try_piece(&piece) {
                Tried::Begun => self.operations.drop_cut(),
                Tried::Wait => return self.operations.uncut(&piece),
                Tried::Keyless => {
                    self.operations.uncut(&piece);
                    self.operations.wait_for_key();
                }
                Tried::Refused => self.abandon(&piece, Failure::Access),
            }
        }
    }

    fn try_piece(&mut self, piece: &Piece) -> Tried {
        let Some(operation) = self.operations.get(piece.operation) else { return Tried::Refused };
        let region = operation.region();
        match self.rails.choose(region, piece.length, self.config.window as u64) {
            Choice::Rail(rail, window) => {
                self.put_piece(rail, *piece, window);
                Tried::Begun
            }
            Choice::Full => Tried::Wait,
            Choice::Keyless if region.is_some_and(|region| self.regions.is_gone(region)) => {
                Tried::Refused
            }
            Choice::Keyless => Tried::Keyless,
            Choice::Refused => Tried::Refused,
        }
    }

    pub(super) fn put_piece(&mut self, rail: u8, piece: Piece, window: Window) {
        let Some(operation) = self.operations.get_mut(piece.operation) else { return };
        let work = operation.begin_piece(&piece, window);
        self.put(rail, piece.length, work, PartKind::Piece(piece));
    }

    /// A piece cannot be, nor its operation.
    pub(super) fn abandon(&mut self, piece: &Piece, failure: Failure) {
        self.operations.abandon(piece, failure);
        self.progress(piece.operation);
    }
}

/// What came of a piece.
enum Tried {
    Begun,
    Wait,
    Keyless,
    Refused,
}
