//! A valid key.

use std::fmt;

use bytes::Bytes;

use crate::Error;
use crate::limits::MAX_KEY_BYTES;

/// 1 to [`MAX_KEY_BYTES`] bytes, any bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

impl Key {
    /// Checks the length.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Key, Error> {
        let bytes = bytes.into();
        match bytes.len() {
            0 => Err(Error::KeyEmpty),
            1..=MAX_KEY_BYTES => Ok(Key(bytes)),
            more => Err(Error::KeyTooLong(more)),
        }
    }

    /// The key's bytes.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl std::borrow::Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// For messages and logs: escaped, at most 64 bytes.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = &self.0[..self.0.len().min(MAX_DISPLAYED_BYTES)];
        let rest = if self.0.len() > MAX_DISPLAYED_BYTES { "…" } else { "" };
        write!(f, "{}{rest}", start.escape_ascii())
    }
}

const MAX_DISPLAYED_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_too_long_keys_are_refused() {
        assert_eq!(Key::new(""), Err(Error::KeyEmpty));
        assert_eq!(Key::new(vec![0; 4097]), Err(Error::KeyTooLong(4097)));
        assert!(Key::new(vec![0; 4096]).is_ok());
        assert_eq!(Key::new("a").unwrap().as_ref(), b"a");
    }

    #[test]
    fn displayed_keys_are_escaped_and_shortened() {
        assert_eq!(Key::new("a\n\u{7f}").unwrap().to_string(), "a\\n\\x7f");
        assert_eq!(Key::new(vec![b'k'; 65]).unwrap().to_string(), "k".repeat(64) + "…");
    }
}
