//! Operations in flight, by id.

use std::time::Instant;

use crate::op::Op;
use crate::region::Slice;

/// The operations in flight. Ids are reused.
#[derive(Default)]
pub(crate) struct Operations {
    rows: Vec<Row>,
    free: Vec<u32>,
    operations: usize,
}

enum Row {
    Free,
    Whole(Operation),
    /// A part of an operation that is split over several streams.
    Part {
        whole: u32,
        start: usize,
        length: usize,
        requested: bool,
    },
}

/// An operation in flight.
pub(crate) struct Operation {
    pub(crate) op: Op,
    /// When it was posted, if it is timed.
    pub(crate) started: Option<Instant>,
    /// The number of unfinished parts.
    left: u32,
    requested: bool,
}

impl Operations {
    /// The number of operations in flight.
    pub(crate) fn count(&self) -> usize {
        self.operations
    }

    pub(crate) fn add(&mut self, op: Op, started: Option<Instant>) -> u32 {
        self.operations += 1;
        self.put(Row::Whole(Operation { op, started, left: 1, requested: false }))
    }

    /// Adds a part of an operation, which is finished when all its parts are.
    pub(crate) fn add_part(&mut self, whole: u32, start: usize, length: usize, first: bool) -> u32 {
        if let Some(Row::Whole(operation)) = self.rows.get_mut(whole as usize) {
            operation.left = if first { 1 } else { operation.left + 1 };
        }
        self.put(Row::Part { whole, start, length, requested: false })
    }

    fn put(&mut self, row: Row) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.rows[at as usize] = row;
                at
            }
            None => {
                self.rows.push(row);
                self.rows.len() as u32 - 1
            }
        }
    }

    /// The operation of an id.
    #[inline]
    pub(crate) fn op(&self, at: u32) -> Option<&Op> {
        match self.rows.get(at as usize)? {
            Row::Whole(operation) => Some(&operation.op),
            Row::Part { whole, .. } => self.op(*whole),
            Row::Free => None,
        }
    }

    /// Its local memory: the slices, and the offset and length within them.
    #[inline]
    pub(crate) fn local(&self, at: u32) -> Option<(&[Slice], usize, usize)> {
        match self.rows.get(at as usize)? {
            Row::Whole(operation) => {
                Some((operation.op.work.local(), 0, operation.op.work.total()))
            }
            Row::Part { whole, start, length, .. } => {
                Some((self.op(*whole)?.work.local(), *start, *length))
            }
            Row::Free => None,
        }
    }

    /// Records that the request was sent.
    pub(crate) fn set_requested(&mut self, at: u32) {
        if let Some(Row::Whole(Operation { requested, .. }) | Row::Part { requested, .. }) =
            self.rows.get_mut(at as usize)
        {
            *requested = true;
        }
    }

    /// Whether the request was sent and no answer has started; marks the answer as started.
    pub(crate) fn take_requested(&mut self, at: u32) -> bool {
        match self.rows.get_mut(at as usize) {
            Some(Row::Whole(Operation { requested, .. }) | Row::Part { requested, .. }) => {
                std::mem::take(requested)
            }
            _ => false,
        }
    }

    /// Frees an id; returns the operation if all of it is finished.
    #[inline]
    pub(crate) fn end(&mut self, at: u32) -> Option<Operation> {
        match std::mem::replace(self.rows.get_mut(at as usize)?, Row::Free) {
            Row::Free => None,
            Row::Whole(operation) => {
                self.free.push(at);
                self.operations -= 1;
                Some(operation)
            }
            Row::Part { whole, .. } => {
                self.free.push(at);
                let Some(Row::Whole(operation)) = self.rows.get_mut(whole as usize) else {
                    return None;
                };
                operation.left -= 1;
                if operation.left == 0 { self.end(whole) } else { None }
            }
        }
    }

    /// Frees all ids, and returns the operations.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Operation> {
        self.free.clear();
        self.operations = 0;
        std::mem::take(&mut self.rows).into_iter().filter_map(|row| match row {
            Row::Whole(operation) => Some(operation),
            _ => None,
        })
    }

    /// The id of the operation that a part belongs to.
    pub(crate) fn operation_of(&self, at: u32) -> u32 {
        match self.rows.get(at as usize) {
            Some(Row::Part { whole, .. }) => *whole,
            _ => at,
        }
    }
}
