//! A pin: a reader's hold on a value.

use crate::{Facts, Ranges};

/// A reader's hold on a value: its memory stays as it is until the pin is given to
/// [`Store::unpin`](crate::Store::unpin). One that is dropped instead holds the memory for ever.
#[derive(Debug)]
#[must_use = "the value's memory is held until the pin is given to `Store::unpin`"]
pub struct Pin {
    pub(crate) slot: u32,
    pub(crate) id: u32,
    pub(crate) version: u64,
}

/// A value that may be read.
#[derive(Debug)]
#[must_use = "the value's memory is held until the pin is given to `Store::unpin`"]
pub struct Pinned {
    /// Holds the value; to be given back.
    pub pin: Pin,
    /// What is known of it.
    pub facts: Facts,
    /// Where its bytes are.
    pub ranges: Ranges,
}
