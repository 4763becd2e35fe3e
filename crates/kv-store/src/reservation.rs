//! A reservation: memory for a value that is not committed yet.

use crate::Ranges;
use crate::pool::Block;

/// Memory for a value. Write the bytes, then pass this to [`Store::commit`](crate::Store::commit)
/// or [`Store::cancel`](crate::Store::cancel). Dropping it instead leaks the memory.
#[derive(Debug)]
#[must_use = "its memory is leaked unless it is committed or cancelled"]
pub struct Reservation {
    pub(crate) block: Block,
}

impl Reservation {
    /// Where the bytes go.
    pub fn ranges(&self) -> Ranges {
        self.block.ranges()
    }

    /// The length of the value in bytes.
    pub fn length(&self) -> u64 {
        self.block.length()
    }
}
