//! Messages that came in their turn, and the caller's receives: each message takes the next receive.

use std::collections::VecDeque;

use super::header::Body;
use crate::op::{Done, Failure, Op};

#[derive(Debug, Default)]
pub(super) struct Inbox {
    receives: VecDeque<Op>,
    letters: VecDeque<Letter>,
    /// How much of a message in parts the first receive has.
    filled: u64,
}

/// A message, or a part of one.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) body: Body,
    pub(super) place: Place,
}

/// Where its payload is.
#[derive(Debug)]
pub(super) enum Place {
    /// In a slot of a rail's mail.
    Slot { rail: u8, slot: u32, length: usize },
    /// Copied.
    Kept(Vec<u8>),
}

/// What to do next.
pub(super) enum Step {
    Nothing,
    /// The first letter's payload goes into the first receive, from here on. Then tell with
    /// [`Inbox::filled`].
    Fill {
        from: u64,
    },
    /// A receive is over; a letter too, if it is given.
    Over(Op, Result<Done, Failure>, Option<Letter>),
    Nonsense,
}

impl Inbox {
    pub(super) fn receives(&self) -> usize {
        self.receives.len()
    }

    pub(super) fn post(&mut self, op: Op) {
        self.receives.push_back(op);
    }

    pub(super) fn push(&mut self, letter: Letter) {
        self.letters.push_back(letter);
    }

    pub(super) fn first(&self) -> Option<(&Op, &Letter)> {
        Some((self.receives.front()?, self.letters.front()?))
    }

    /// Whether a letter finds a receive.
    #[inline]
    pub(super) fn step(&mut self) -> Step {
        let (Some(receive), Some(letter)) = (self.receives.front(), self.letters.front()) else {
            return Step::Nothing;
        };
        match letter.body {
            Body::Notice { length, imm } if self.filled == 0 => {
                let done = Done::Received { length: length as usize, imm: Some(imm) };
                self.over(Ok(done))
            }
            // It waits for a receive with room: nothing that was acknowledged is lost.
            Body::Part { total, offset: 0, .. } if total > receive.work.total() as u64 => {
                match self.receives.pop_front() {
                    Some(receive) => Step::Over(receive, Err(Failure::TooLong), None),
                    None => Step::Nothing,
                }
            }
            Body::Part { offset, .. } if offset == self.filled => Step::Fill { from: offset },
            _ => Step::Nonsense,
        }
    }

    /// The first letter's bytes are in the first receive.
    pub(super) fn filled(&mut self, bytes: u64) -> Step {
        let Some(Body::Part { total, imm, .. }) = self.letters.front().map(|letter| letter.body)
        else {
            return Step::Nonsense;
        };
        self.filled += bytes;
        if self.filled < total && bytes > 0 {
            return Step::Nothing;
        }
        if self.filled != total {
            return Step::Nonsense;
        }
        self.filled = 0;
        self.over(Ok(Done::Received { length: total as usize, imm }))
    }

    /// The first letter, when only a part of a message is over.
    pub(super) fn pop_letter(&mut self) -> Option<Letter> {
        self.letters.pop_front()
    }

    fn over(&mut self, outcome: Result<Done, Failure>) -> Step {
        match self.receives.pop_front() {
            Some(receive) => Step::Over(receive, outcome, self.letters.pop_front()),
            None => Step::Nothing,
        }
    }

    /// Letters whose slots are about to go.
    pub(super) fn evacuate(&mut self, rail: u8, mut copy: impl FnMut(u32, usize) -> Vec<u8>) {
        for letter in &mut self.letters {
            if let Place::Slot { rail: of, slot, length } = letter.place
                && of == rail
            {
                letter.place = Place::Kept(copy(slot, length));
            }
        }
    }

    pub(super) fn take_receives(&mut self) -> VecDeque<Op> {
        self.letters.clear();
        std::mem::take(&mut self.receives)
    }
}
