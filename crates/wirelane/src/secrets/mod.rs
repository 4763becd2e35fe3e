//! Files that hold credentials: keys, tokens, TLS. Each is read whole, within a limit, and refused if it is a secret that others
//! may read.

mod error;
pub(crate) mod key_file;
mod secret_file;
pub(crate) mod tls_file;
pub(crate) mod token;

pub(crate) use error::{FileError, FileErrorKind};
