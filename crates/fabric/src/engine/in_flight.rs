//! Operations in flight, by number.

use std::time::Instant;

use crate::op::Op;
use crate::region::Slice;

/// What is in flight. Numbers are used again.
#[derive(Default)]
pub(crate) struct Operations {
    slots: Vec<Slot>,
    free: Vec<u32>,
    operations: usize,
}

enum Slot {
    Free,
    Whole(Operation),
    /// A part of an operation that is spread over several streams.
    Part {
        whole: u32,
        start: usize,
        length: usize,
        asked: bool,
    },
}

/// An operation in flight.
pub(crate) struct Operation {
    pub(crate) op: Op,
    /// When it was posted, if it is timed.
    pub(crate) begun: Option<Instant>,
    /// How many parts are not over yet.
    left: u32,
    asked: bool,
}

impl Operations {
    /// How many operations are in flight.
    pub(crate) fn operations(&self) -> usize {
        self.operations
    }

    pub(crate) fn add(&mut self, op: Op, begun: Option<Instant>) -> u32 {
        self.operations += 1;
        self.put(Slot::Whole(Operation { op, begun, left: 1, asked: false }))
    }

    /// Cuts an operation into one more part. The whole then counts its parts only.
    pub(crate) fn cut(&mut self, whole: u32, start: usize, length: usize, first: bool) -> u32 {
        if let Some(Slot::Whole(flight)) = self.slots.get_mut(whole as usize) {
            flight.left = if first { 1 } else { flight.left + 1 };
        }
        self.put(Slot::Part { whole, start, length, asked: false })
    }

    fn put(&mut self, slot: Slot) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// The operation behind a number.
    #[inline]
    pub(crate) fn op(&self, at: u32) -> Option<&Op> {
        match self.slots.get(at as usize)? {
            Slot::Whole(flight) => Some(&flight.op),
            Slot::Part { whole, .. } => self.op(*whole),
            Slot::Free => None,
        }
    }

    /// Its memory on this side: the slices, and which bytes of them.
    #[inline]
    pub(crate) fn local(&self, at: u32) -> Option<(&[Slice], usize, usize)> {
        match self.slots.get(at as usize)? {
            Slot::Whole(flight) => Some((flight.op.work.local(), 0, flight.op.work.total())),
            Slot::Part { whole, start, length, .. } => {
                Some((self.op(*whole)?.work.local(), *start, *length))
            }
            Slot::Free => None,
        }
    }

    /// Notes that the peer has the question.
    pub(crate) fn set_asked(&mut self, at: u32) {
        if let Some(Slot::Whole(Operation { asked, .. }) | Slot::Part { asked, .. }) =
            self.slots.get_mut(at as usize)
        {
            *asked = true;
        }
    }

    /// Whether the peer has the question and has not begun to answer; it has now.
    pub(crate) fn take_asked(&mut self, at: u32) -> bool {
        match self.slots.get_mut(at as usize) {
            Some(Slot::Whole(Operation { asked, .. }) | Slot::Part { asked, .. }) => {
                std::mem::take(asked)
            }
            _ => false,
        }
    }

    /// Ends a number; gives back the operation if nothing of it is left.
    #[inline]
    pub(crate) fn end(&mut self, at: u32) -> Option<Operation> {
        match std::mem::replace(self.slots.get_mut(at as usize)?, Slot::Free) {
            Slot::Free => None,
            Slot::Whole(flight) => {
                self.free.push(at);
                self.operations -= 1;
                Some(flight)
            }
            Slot::Part { whole, .. } => {
                self.free.push(at);
                let Some(Slot::Whole(flight)) = self.slots.get_mut(whole as usize) else {
                    return None;
                };
                flight.left -= 1;
                if flight.left == 0 { self.end(whole) } else { None }
            }
        }
    }

    /// Ends everything, and gives back the operations.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Operation> {
        self.free.clear();
        self.operations = 0;
        std::mem::take(&mut self.slots).into_iter().filter_map(|slot| match slot {
            Slot::Whole(flight) => Some(flight),
            _ => None,
        })
    }

    /// The operation that a number belongs to.
    pub(crate) fn whole(&self, at: u32) -> u32 {
        match self.slots.get(at as usize) {
            Some(Slot::Part { whole, .. }) => *whole,
            _ => at,
        }
    }
}
