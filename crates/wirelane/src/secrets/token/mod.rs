//! Tokens in a file: who may use a store, one line each. `line` is one line, `file` the file of a server or of a caller.

pub(crate) mod escape;
pub(crate) mod file;
pub(crate) mod line;

pub(crate) use file::{caller, holders};
