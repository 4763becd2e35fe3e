//! Notes on our board: how a store that watches it is asked without a message, and how it answers.

use std::sync::atomic::{Ordering, fence};

use kv_proto::wire::{Board, Note};

use crate::in_flight::Flight;
use crate::receive_buffer::Landing;

/// Our side of the board.
pub(crate) struct Notes {
    /// The sequence of the last note.
    last: u64,
    /// Batches that were noted and not answered, each in the place of its note.
    noted: [Option<Noting>; Board::NOTES],
    count: usize,
    asleep: bool,
}

#[derive(Clone, Copy)]
struct Noting {
    tag: u32,
    sequence: u64,
    /// Where its bell is.
    bell: usize,
}

/// Whether a batch was noted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// The store watches.
    Seen,
    /// It stopped watching meanwhile, and must be told to look.
    Perhaps,
    /// It does not watch, or there is no place for a note.
    No,
}

impl Notes {
    /// An empty board, for a line that is about to be opened.
    pub(crate) fn new(landing: &Landing) -> Self {
        landing.memory().write(0, &[0; Board::LENGTH]);
        Notes { last: 0, noted: [None; Board::NOTES], count: 0, asleep: false }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Leaves a note of a batch.
    #[inline]
    pub(crate) fn leave(&mut self, landing: &Landing, tag: u32, flight: &Flight) -> Noted {
        let memory = landing.memory();
        let watches = || memory.load(Board::STORE) == Board::YES;
        let sequence = self.last + 1;
        let place = (sequence % Board::NOTES as u64) as usize;
        let (at, length) = flight.place();
        if length > usize::from(u16::MAX) || self.noted[place].is_some() || !watches() {
            return Noted::No;
        }
        self.last = sequence;
        let bell = flight.bell();
        self.noted[place] = Some(Noting { tag, sequence, bell });
        memory.store(bell, 0);
        self.count += 1;
        let at = (at / Note::UNIT) as u32;
        let note = Note { sequence: sequence as u16, length: length as u16, at };
        memory.store(Board::note(sequence), note.to_word());
        // The store says that it does not watch and then looks once more; we leave a note and then look whether
        // it watches. One of the two sees the other.
        fence(Ordering::SeqCst);
        if watches() { Noted::Seen } else { Noted::Perhaps }
    }

    /// The tag of a batch that was answered.
    #[inline]
    pub(crate) fn rung(&mut self, landing: &Landing) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        for noted in &mut self.noted {
            if let Some(Noting { tag, sequence, bell }) = *noted
                && landing.memory().load(bell) == sequence
            {
                *noted = None;
                self.count -= 1;
                return Some(tag);
            }
        }
        None
    }

    /// Says that the answers of all that is not noted any more were taken, and what was lent with them.
    #[inline]
    pub(crate) fn took(&self, landing: &Landing) {
        let oldest = self.noted.iter().flatten().map(|noted| noted.sequence).min();
        landing.memory().store(Board::TAKEN, oldest.map_or(self.last, |oldest| oldest - 1));
    }

    /// Says that we are about to sleep; `false`: something was rung already.
    pub(crate) fn sleep(&mut self, landing: &Landing) -> bool {
        if self.count == 0 {
            return true;
        }
        landing.memory().store(Board::CLIENT, Board::YES);
        self.asleep = true;
        fence(Ordering::SeqCst);
        let rung = |noted: &Noting| landing.memory().load(noted.bell) == noted.sequence;
        let any = self.noted.iter().flatten().any(rung);
        if any {
            self.wake(landing);
        }
        !any
    }

    /// We are awake.
    #[inline]
    pub(crate) fn wake(&mut self, landing: &Landing) {
        if std::mem::take(&mut self.asleep) {
            landing.memory().store(Board::CLIENT, 0);
        }
    }
}
