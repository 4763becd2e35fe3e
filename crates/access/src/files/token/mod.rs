//! Token files: one identity per line. `line` is one line, `file` the file of a server or a client.

pub mod escape;
pub mod file;
pub mod line;

pub use file::{caller, identities};
