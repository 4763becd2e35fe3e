//! Pending requests and their outcomes: a row for each, by its call id.

use crate::call_id::CallId;
use crate::in_flight::Outcome;

/// Rows by the low half of their call ids. Each operation is a few loads and stores: no hashing,
/// and no allocation once there are as many rows as are in flight at a time.
#[derive(Default)]
pub(crate) struct CallTable {
    rows: Vec<Row>,
    free: Vec<u32>,
    /// How many rows have an outcome.
    ready: usize,
}

struct Row {
    /// How often the row was used: the high half of the call id.
    generation: u32,
    state: State,
}

enum State {
    Free,
    Pending,
    /// Pending, and its outcome is not needed any more.
    Ignored,
    Ready(Outcome),
}

impl CallTable {
    /// A call id for a new request.
    #[inline]
    pub(crate) fn expect(&mut self) -> CallId {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.rows.push(Row { generation: 0, state: State::Free });
                (self.rows.len() - 1) as u32
            }
        };
        let row = &mut self.rows[at as usize];
        // Never 0: that would be `CallId::NONE`.
        row.generation = row.generation.checked_add(1).unwrap_or(1);
        row.state = State::Pending;
        CallId::new(row.generation, at)
    }

    /// The outcome has arrived.
    #[inline]
    pub(crate) fn complete(&mut self, call_id: CallId, outcome: Outcome) {
        let Some(row) = self.row(call_id) else { return };
        match row.state {
            State::Pending => {
                row.state = State::Ready(outcome);
                self.ready += 1;
            }
            State::Ignored => self.release(call_id),
            State::Free | State::Ready(_) => {}
        }
    }

    /// Takes the outcome, if it has arrived.
    #[inline]
    pub(crate) fn take(&mut self, call_id: CallId) -> Option<Outcome> {
        let row = self.row(call_id)?;
        if !matches!(row.state, State::Ready(_)) {
            return None;
        }
        let State::Ready(outcome) = std::mem::replace(&mut row.state, State::Free) else {
            return None;
        };
        self.free.push(call_id.row());
        self.ready -= 1;
        Some(outcome)
    }

    /// Discards the outcome, whether it has arrived or not.
    pub(crate) fn ignore(&mut self, call_id: CallId) {
        let Some(row) = self.row(call_id) else { return };
        match row.state {
            State::Pending => row.state = State::Ignored,
            State::Ready(_) => drop(self.take(call_id)),
            State::Free | State::Ignored => {}
        }
    }

    /// Frees the row of a request that was not made.
    pub(crate) fn release(&mut self, call_id: CallId) {
        if let Some(row) = self.row(call_id) {
            row.state = State::Free;
            self.free.push(call_id.row());
        }
    }

    /// Whether any outcome has arrived.
    #[inline]
    pub(crate) fn any_ready(&self) -> bool {
        self.ready > 0
    }

    /// The call ids of requests whose outcome has arrived.
    pub(crate) fn all_ready(&self) -> impl Iterator<Item = CallId> {
        let is_ready = |row: &Row| matches!(row.state, State::Ready(_));
        let call_id = |at: usize, row: &Row| CallId::new(row.generation, at as u32);
        let rows = self.rows.iter().enumerate().filter(move |(_, row)| is_ready(row));
        rows.map(move |(at, row)| call_id(at, row))
    }

    #[inline]
    fn row(&mut self, call_id: CallId) -> Option<&mut Row> {
        self.rows
            .get_mut(call_id.row() as usize)
            .filter(|row| row.generation == call_id.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_ids_are_not_used_twice_and_rows_are() {
        let mut calls = CallTable::default();
        let [one, other] = [calls.expect(), calls.expect()];
        assert!(calls.take(one).is_none() && !calls.any_ready());
        calls.complete(other, Outcome::Lost);
        assert_eq!(calls.all_ready().collect::<Vec<_>>(), [other]);
        assert!(calls.take(other).is_some() && calls.take(other).is_none());
        let third = calls.expect();
        assert!(third != other && third.row() == other.row(), "a row used again");
        calls.complete(other, Outcome::Lost);
        assert!(!calls.any_ready(), "an old call id is unknown");
    }

    #[test]
    fn what_is_ignored_leaves_nothing_behind() {
        let mut calls = CallTable::default();
        let [early, late] = [calls.expect(), calls.expect()];
        calls.complete(early, Outcome::Lost);
        calls.ignore(early);
        calls.ignore(late);
        calls.complete(late, Outcome::Lost);
        assert!(!calls.any_ready());
        assert_eq!((calls.rows.len(), calls.free.len()), (2, 2));
    }
}
