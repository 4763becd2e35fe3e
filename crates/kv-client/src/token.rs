//! Names of requests until they are answered.

/// Identifies a pending call of a [`Client`](crate::Client), see [`Client::ready`](crate::Client::ready). No later call
/// of the same client has the same token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(u64);

impl Token {
    /// For requests whose answer nobody takes.
    pub(crate) const NOBODY: Token = Token(0);

    /// The `turn`-th use of a row. Turns begin at 1.
    #[inline]
    pub(crate) fn new(turn: u32, row: u32) -> Self {
        Token(u64::from(turn) << 32 | u64::from(row))
    }

    #[inline]
    pub(crate) fn row(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub(crate) fn turn(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The one after this, for tokens that are counted.
    pub(crate) fn next(self) -> Self {
        Token(self.0 + 1)
    }
}
