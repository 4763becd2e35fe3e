//! What is known of a value without its bytes.

use crate::error::{Error, ErrorKind};

/// The metadata of a value: all but its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Its version.
    pub version: u64,
    /// When it expires, in milliseconds since 1970.
    pub expires: Option<u64>,
    /// Its length in bytes.
    pub length: u64,
}

#[cold]
pub(crate) fn damaged(key: &[u8]) -> Error {
    let key = key.escape_ascii();
    let text = format!(
        "read \"{key}\" from disk: checksum mismatch, the value was damaged after it was \
         written — put it again, or restore a backup; `wirelane kv fsck` lists all damaged keys"
    );
    Error::new(ErrorKind::Damaged, text)
}
