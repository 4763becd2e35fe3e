//! Tokens of operations: numbers by which completions are assigned to their purpose.
//!
//! The high byte is the kind. Below it is a row or a buffer index, or, for the control block, the operation in the
//! next byte and a slot's sequence in the remaining 48 bits.

/// Which part of a connection an operation belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// A receive into this buffer of the receive area.
    Receive(u32),
    /// A write of the reply in this row.
    Reply(u32),
    /// A read for the fetch in this row.
    Fetch(u32),
    /// The control message in this row.
    ControlMessage(u32),
    Watch(WatchOp),
}

/// An operation on a control block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchOp {
    /// Reads the client's cache line.
    Line,
    /// The same, for the last time.
    LastLine,
    /// Writes whether the control block is watched.
    State,
    /// Wakes a sleeping client.
    Wake,
    /// Reads the message of a request slot. Only the low 48 bits of the sequence are kept.
    Slot(u64),
}

impl Token {
    #[inline]
    pub(super) fn encode(self) -> u64 {
        match self {
            Token::Receive(place) => RECEIVE | u64::from(place),
            Token::Reply(row) => REPLY | u64::from(row),
            Token::Fetch(row) => FETCH | u64::from(row),
            Token::ControlMessage(row) => CONTROL_MESSAGE | u64::from(row),
            Token::Watch(WatchOp::Line) => WATCH | LINE,
            Token::Watch(WatchOp::LastLine) => WATCH | LAST_LINE,
            Token::Watch(WatchOp::State) => WATCH | STATE,
            Token::Watch(WatchOp::Wake) => WATCH | WAKE,
            Token::Watch(WatchOp::Slot(sequence)) => WATCH | SLOT | sequence & SEQUENCE,
        }
    }

    /// `None`: not a valid token.
    #[inline]
    pub(super) fn parse(token: u64) -> Option<Self> {
        let row = token as u32;
        Some(match token & KIND {
            RECEIVE => Token::Receive(row),
            REPLY => Token::Reply(row),
            FETCH => Token::Fetch(row),
            CONTROL_MESSAGE => Token::ControlMessage(row),
            WATCH => Token::Watch(match token & OPERATION {
                LINE => WatchOp::Line,
                LAST_LINE => WatchOp::LastLine,
                STATE => WatchOp::State,
                WAKE => WatchOp::Wake,
                SLOT => WatchOp::Slot(token & SEQUENCE),
                _ => return None,
            }),
            _ => return None,
        })
    }
}

const KIND: u64 = 0xff << 56;
const RECEIVE: u64 = 1 << 56;
const REPLY: u64 = 2 << 56;
const FETCH: u64 = 3 << 56;
const CONTROL_MESSAGE: u64 = 4 << 56;
const WATCH: u64 = 5 << 56;

const OPERATION: u64 = 0xff << 48;
const LINE: u64 = 1 << 48;
const STATE: u64 = 2 << 48;
const WAKE: u64 = 3 << 48;
const SLOT: u64 = 4 << 48;
const LAST_LINE: u64 = 5 << 48;
const SEQUENCE: u64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_parsed_as_encoded() {
        let operations = [WatchOp::Line, WatchOp::LastLine, WatchOp::State, WatchOp::Wake];
        let slots = [0, 1, SEQUENCE].map(WatchOp::Slot);
        let rows = [0, 7, u32::MAX].into_iter().flat_map(|row| {
            [Token::Receive, Token::Reply, Token::Fetch, Token::ControlMessage]
                .map(|kind| kind(row))
        });
        for token in rows.chain(operations.into_iter().chain(slots).map(Token::Watch)) {
            assert_eq!(Token::parse(token.encode()), Some(token));
        }
        assert_eq!(Token::parse(Token::Watch(WatchOp::Slot(1 << 48 | 3)).encode()), {
            Some(Token::Watch(WatchOp::Slot(3)))
        });
    }

    #[test]
    fn invalid_tokens_are_refused() {
        for number in [0, 6 << 56, WATCH, WATCH | 6 << 48] {
            assert_eq!(Token::parse(number), None);
        }
    }
}
