//! Pending requests and their outcomes: a row for each, by its token.

use crate::in_flight::Outcome;
use crate::token::Token;

/// Rows by the low half of their tokens. Each operation is a few loads and stores: no hashing,
/// and no allocation once there are as many rows as are in flight at a time.
#[derive(Default)]
pub(crate) struct Answers {
    rows: Vec<Row>,
    free: Vec<u32>,
    /// How many rows have an outcome.
    ready: usize,
}

struct Row {
    /// How often the row was used: the high half of the token.
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

impl Answers {
    /// A token for a new request.
    #[inline]
    pub(crate) fn expect(&mut self) -> Token {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.rows.push(Row { generation: 0, state: State::Free });
                (self.rows.len() - 1) as u32
            }
        };
        let row = &mut self.rows[at as usize];
        // Never 0: that would be `Token::NONE`.
        row.generation = row.generation.checked_add(1).unwrap_or(1);
        row.state = State::Pending;
        Token::new(row.generation, at)
    }

    /// The outcome has arrived.
    #[inline]
    pub(crate) fn complete(&mut self, token: Token, outcome: Outcome) {
        let Some(row) = self.row(token) else { return };
        match row.state {
            State::Pending => {
                row.state = State::Ready(outcome);
                self.ready += 1;
            }
            State::Ignored => self.release(token),
            State::Free | State::Ready(_) => {}
        }
    }

    /// Takes the outcome, if it has arrived.
    #[inline]
    pub(crate) fn take(&mut self, token: Token) -> Option<Outcome> {
        let row = self.row(token)?;
        if !matches!(row.state, State::Ready(_)) {
            return None;
        }
        let State::Ready(outcome) = std::mem::replace(&mut row.state, State::Free) else {
            return None;
        };
        self.free.push(token.row());
        self.ready -= 1;
        Some(outcome)
    }

    /// Discards the outcome, whether it has arrived or not.
    pub(crate) fn ignore(&mut self, token: Token) {
        let Some(row) = self.row(token) else { return };
        match row.state {
            State::Pending => row.state = State::Ignored,
            State::Ready(_) => drop(self.take(token)),
            State::Free | State::Ignored => {}
        }
    }

    /// Frees the row of a request that was not made.
    pub(crate) fn release(&mut self, token: Token) {
        if let Some(row) = self.row(token) {
            row.state = State::Free;
            self.free.push(token.row());
        }
    }

    /// Whether any outcome has arrived.
    #[inline]
    pub(crate) fn any_ready(&self) -> bool {
        self.ready > 0
    }

    /// The tokens of requests whose outcome has arrived.
    pub(crate) fn all_ready(&self) -> impl Iterator<Item = Token> {
        let is_ready = |row: &Row| matches!(row.state, State::Ready(_));
        let token = |at: usize, row: &Row| Token::new(row.generation, at as u32);
        let rows = self.rows.iter().enumerate().filter(move |(_, row)| is_ready(row));
        rows.map(move |(at, row)| token(at, row))
    }

    #[inline]
    fn row(&mut self, token: Token) -> Option<&mut Row> {
        self.rows.get_mut(token.row() as usize).filter(|row| row.generation == token.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_not_used_twice_and_rows_are() {
        let mut answers = Answers::default();
        let [one, other] = [answers.expect(), answers.expect()];
        assert!(answers.take(one).is_none() && !answers.any_ready());
        answers.complete(other, Outcome::Lost);
        assert_eq!(answers.all_ready().collect::<Vec<_>>(), [other]);
        assert!(answers.take(other).is_some() && answers.take(other).is_none());
        let third = answers.expect();
        assert!(third != other && third.row() == other.row(), "a row used again");
        answers.complete(other, Outcome::Lost);
        assert!(!answers.any_ready(), "an old token is nobody's");
    }

    #[test]
    fn what_is_ignored_leaves_nothing_behind() {
        let mut answers = Answers::default();
        let [early, late] = [answers.expect(), answers.expect()];
        answers.complete(early, Outcome::Lost);
        answers.ignore(early);
        answers.ignore(late);
        answers.complete(late, Outcome::Lost);
        assert!(!answers.any_ready());
        assert_eq!((answers.rows.len(), answers.free.len()), (2, 2));
    }
}
