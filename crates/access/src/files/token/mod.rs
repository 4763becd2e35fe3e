//! Tokens in a file: who may use a store, one line each. `line` is one line, `file` the file of a server or of a caller.

pub mod escape;
pub mod file;
pub mod line;

pub use file::{caller, holders};
