//! Pending requests and their outcomes: a row for each, by its id.

use crate::outcome::Outcome;
use crate::request_id::RequestId;

/// Rows by the low half of their ids. Each operation is a few loads and stores: no hashing,
/// and no allocation once there are as many rows as are in flight at a time.
#[derive(Default)]
pub(crate) struct RequestTable {
    rows: Vec<Row>,
    free: Vec<u32>,
    /// How many rows have an outcome.
    ready: usize,
}

struct Row {
    /// How often the row was used: the high half of the id.
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

impl RequestTable {
    /// Adds a row for a new request; returns its id.
    #[inline]
    pub(crate) fn insert(&mut self) -> RequestId {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.rows.push(Row { generation: 0, state: State::Free });
                (self.rows.len() - 1) as u32
            }
        };
        let row = &mut self.rows[at as usize];
        // Never 0: that would be `RequestId::NONE`.
        row.generation = row.generation.checked_add(1).unwrap_or(1);
        row.state = State::Pending;
        RequestId::new(row.generation, at)
    }

    /// The outcome has arrived.
    #[inline]
    pub(crate) fn complete(&mut self, request_id: RequestId, outcome: Outcome) {
        let Some(row) = self.row(request_id) else { return };
        match row.state {
            State::Pending => {
                row.state = State::Ready(outcome);
                self.ready += 1;
            }
            State::Ignored => self.release(request_id),
            State::Free | State::Ready(_) => {}
        }
    }

    /// Takes the outcome, if it has arrived.
    #[inline]
    pub(crate) fn take(&mut self, request_id: RequestId) -> Option<Outcome> {
        let row = self.row(request_id)?;
        if !matches!(row.state, State::Ready(_)) {
            return None;
        }
        let State::Ready(outcome) = std::mem::replace(&mut row.state, State::Free) else {
            return None;
        };
        self.free.push(request_id.row());
        self.ready -= 1;
        Some(outcome)
    }

    /// Discards the outcome, whether it has arrived or not.
    pub(crate) fn ignore(&mut self, request_id: RequestId) {
        let Some(row) = self.row(request_id) else { return };
        match row.state {
            State::Pending => row.state = State::Ignored,
            State::Ready(_) => drop(self.take(request_id)),
            State::Free | State::Ignored => {}
        }
    }

    /// Frees the row of a request that was not made.
    pub(crate) fn release(&mut self, request_id: RequestId) {
        if let Some(row) = self.row(request_id) {
            row.state = State::Free;
            self.free.push(request_id.row());
        }
    }

    /// Whether any outcome has arrived.
    #[inline]
    pub(crate) fn any_ready(&self) -> bool {
        self.ready > 0
    }

    /// The ids of requests whose outcome has arrived.
    pub(crate) fn all_ready(&self) -> impl Iterator<Item = RequestId> {
        let is_ready = |row: &Row| matches!(row.state, State::Ready(_));
        let request_id = |at: usize, row: &Row| RequestId::new(row.generation, at as u32);
        let rows = self.rows.iter().enumerate().filter(move |(_, row)| is_ready(row));
        rows.map(move |(at, row)| request_id(at, row))
    }

    #[inline]
    fn row(&mut self, request_id: RequestId) -> Option<&mut Row> {
        self.rows
            .get_mut(request_id.row() as usize)
            .filter(|row| row.generation == request_id.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_not_used_twice_and_rows_are() {
        let mut requests = RequestTable::default();
        let [one, other] = [requests.insert(), requests.insert()];
        assert!(requests.take(one).is_none() && !requests.any_ready());
        requests.complete(other, Outcome::Lost);
        assert_eq!(requests.all_ready().collect::<Vec<_>>(), [other]);
        assert!(requests.take(other).is_some() && requests.take(other).is_none());
        let third = requests.insert();
        assert!(third != other && third.row() == other.row(), "a row used again");
        requests.complete(other, Outcome::Lost);
        assert!(!requests.any_ready(), "an old id is unknown");
    }

    #[test]
    fn what_is_ignored_leaves_nothing_behind() {
        let mut requests = RequestTable::default();
        let [early, late] = [requests.insert(), requests.insert()];
        requests.complete(early, Outcome::Lost);
        requests.ignore(early);
        requests.ignore(late);
        requests.complete(late, Outcome::Lost);
        assert!(!requests.any_ready());
        assert_eq!((requests.rows.len(), requests.free.len()), (2, 2));
    }
}
