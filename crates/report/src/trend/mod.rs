//! Runs beside earlier runs: which results of two documents are of the same measurement, and how far they are apart.
//!
//! It gives no verdict: the caller says how much worse is too much.

mod change;
mod value;

pub use change::{Change, Usual, changes, newest};
pub(crate) use value::how;
pub use value::{Measurement, Unit, measurements};
