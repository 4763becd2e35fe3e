//! A reservation: memory for a value that is not there yet.

use crate::Ranges;
use crate::pool::Block;

/// Memory for a value. Write the bytes, then give this to [`Store::commit`](crate::Store::commit)
/// or [`Store::cancel`](crate::Store::cancel). One that is dropped instead takes its memory along.
#[derive(Debug)]
#[must_use = "its memory is held until it is committed or cancelled"]
pub struct Reservation {
    pub(crate) block: Block,
}

impl Reservation {
    /// Where the bytes go.
    pub fn ranges(&self) -> Ranges {
        self.block.ranges()
    }

    /// Bytes of the value.
    pub fn length(&self) -> u64 {
        self.block.length()
    }
}
