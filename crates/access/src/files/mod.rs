//! Files that hold credentials: keys, tokens, TLS. Each is read whole, within a limit, and refused if it is a secret that others
//! may read.

mod error;
pub mod key_file;
mod secret_file;
pub mod tls_file;
pub mod token;

pub use error::{FileError, FileErrorKind};
