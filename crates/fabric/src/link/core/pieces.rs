//! Which rail a write or a read takes, and what becomes of its pieces.

use super::Core;
use crate::link::operations::part::{PartKind, Piece};
use crate::link::rails::rail::Key;
use crate::link::regions::Standing;
use crate::op::Failure;
use crate::remote::Window;

impl Core {
    /// A rail for so many bytes to or from a region.
    #[inline]
    pub(in crate::link) fn choose(&mut self, region: Option<u64>, bytes: u64) -> Choice {
        let Some(region) = region else { return Choice::Refused };
        if let [only] = self.active[..] {
            let Some(connection) = &self.rails[usize::from(only)].connection else {
                return Choice::Full;
            };
            return match connection.key(region) {
                Some(Key::Open(_)) if !connection.has_room(bytes, self.config.window as u64) => {
                    Choice::Full
                }
                Some(Key::Open(window)) => Choice::Rail(only, window.clone()),
                Some(Key::Refused) => Choice::Refused,
                None => Choice::Keyless,
            };
        }
        let mut best: Option<(u64, usize, &Window)> = None;
        let mut refused = 0;
        let (mut keyless, mut open) = (false, false);
        for step in 0..self.active.len() {
            let at = (self.turn + step) % self.active.len();
            let rail = &self.rails[usize::from(self.active[at])];
            let Some(connection) = &rail.connection else { continue };
            match connection.key(region) {
                None => keyless = true,
                Some(Key::Refused) => refused += 1,
                Some(Key::Open(window)) => {
                    open = true;
                    if !connection.has_room(bytes, self.config.window as u64) {
                        continue;
                    }
                    // What it has to do, in proportion to what it can.
                    let load = (connection.bytes_out + bytes + 64) / u64::from(rail.plan.weight);
                    if best.as_ref().is_none_or(|(least, ..)| load < *least) {
                        best = Some((load, at, window));
                    }
                }
            }
        }
        match best {
            Some((_, at, window)) => {
                let choice = Choice::Rail(self.active[at], window.clone());
                self.turn = if self.active.len() > 1 { at + 1 } else { 0 };
                choice
            }
            None if keyless && !open => Choice::Keyless,
            None if refused > 0 && refused == self.active.len() => Choice::Refused,
            None => Choice::Full,
        }
    }

    pub(in crate::link) fn put_piece(&mut self, rail: u8, piece: Piece, window: Window) {
        let Some(operation) = self.operations.get_mut(piece.operation) else { return };
        operation.begun = true;
        let work = operation.work(&piece, window);
        self.put(rail, piece.length, work, PartKind::Piece(piece));
    }

    pub(in crate::link) fn pump_pieces(&mut self) {
        while let Some(piece) = self.again.front().copied() {
            match self.try_piece(&piece) {
                Tried::Begun => {}
                Tried::Wait | Tried::Keyless => break,
                Tried::Refused => self.abandon(&piece, Failure::Access),
            }
            self.again.pop_front();
        }
        while let Some(number) = self.waiting.front().copied() {
            let Some(operation) = self.operations.get_mut(number) else {
                self.waiting.pop_front();
                continue;
            };
            let length = (operation.total - operation.cut).min(self.config.chunk as u64);
            let piece = Piece { operation: number, offset: operation.cut, length };
            operation.pieces += 1;
            operation.cut += length;
            match self.try_piece(&piece) {
                Tried::Begun => {}
                Tried::Wait => return self.uncut(&piece),
                Tried::Keyless => {
                    self.uncut(&piece);
                    self.keyless.push(number);
                    self.waiting.pop_front();
                    continue;
                }
                Tried::Refused => {
                    self.waiting.pop_front();
                    self.abandon(&piece, Failure::Access);
                    continue;
                }
            }
            if self.operations.get(number).is_none_or(|operation| operation.cut == operation.total)
            {
                self.waiting.pop_front();
            }
        }
    }

    fn try_piece(&mut self, piece: &Piece) -> Tried {
        let Some(operation) = self.operations.get(piece.operation) else { return Tried::Refused };
        let region = operation.region();
        match self.choose(region, piece.length) {
            Choice::Rail(rail, window) => {
                self.put_piece(rail, *piece, window);
                Tried::Begun
            }
            Choice::Full => Tried::Wait,
            Choice::Keyless
                if region.and_then(|region| self.heard.get(region)) == Some(Standing::Gone) =>
            {
                Tried::Refused
            }
            Choice::Keyless => Tried::Keyless,
            Choice::Refused => Tried::Refused,
        }
    }

    fn uncut(&mut self, piece: &Piece) {
        if let Some(operation) = self.operations.get_mut(piece.operation) {
            operation.pieces -= 1;
            operation.cut -= piece.length;
        }
    }

    /// A piece that cannot be: the operation fails when its other pieces are back.
    pub(in crate::link) fn abandon(&mut self, piece: &Piece, failure: Failure) {
        if let Some(operation) = self.operations.get_mut(piece.operation) {
            operation.pieces -= 1;
            operation.failure.get_or_insert(failure);
            operation.cut = operation.total;
        }
        // Its row may soon be another's.
        self.waiting.retain(|number| *number != piece.operation);
        self.keyless.retain(|number| *number != piece.operation);
        self.progress(piece.operation);
    }

    /// Keys came, or rails: who waited for that tries again.
    pub(in crate::link) fn try_keyless(&mut self) {
        let keyless = std::mem::take(&mut self.keyless);
        for operation in keyless.into_iter().rev() {
            self.waiting.push_front(operation);
        }
    }
}

/// What came of a piece.
enum Tried {
    Begun,
    Wait,
    Keyless,
    Refused,
}

/// A rail for an operation.
pub(in crate::link) enum Choice {
    Rail(u8, Window),
    /// None has room, or none is up.
    Full,
    /// The region's key has not come yet.
    Keyless,
    /// No rail reaches the region.
    Refused,
}
