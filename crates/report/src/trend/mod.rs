//! Compares runs with earlier ones: which results of two documents are of the same measurement, and how they differ.
//! It gives no verdict: the caller decides what is a regression.

mod change;
mod value;

pub use change::{Change, EarlierRuns, changes, newest};
pub(crate) use value::how;
pub use value::{Measurement, Unit, measurements};
