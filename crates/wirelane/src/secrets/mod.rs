//! Files that hold secrets: keys, tokens, TLS. Each is read once, and refused if others may read it.

pub(crate) mod key_file;
pub(crate) mod secret_file;
pub(crate) mod tls_file;
pub(crate) mod token;
