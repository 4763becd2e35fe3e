//! A key that was checked.

use std::fmt;

use bytes::Bytes;

use crate::Error;
use crate::limits::MAX_KEY_BYTES;

/// 1 to [`MAX_KEY_BYTES`] bytes, any bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

impl Key {
    /// Takes bytes as a key, if they are not none and not too many.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Key, Error> {
        let bytes = bytes.into();
        match bytes.len() {
            0 => Err(Error::KeyEmpty),
            1..=MAX_KEY_BYTES => Ok(Key(bytes)),
            more => Err(Error::KeyTooLong(more)),
        }
    }

    /// The bytes, as messages want them.
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

/// For messages and logs: printable, and not long.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(MAX_SHOWN)];
        let rest = if self.0.len() > MAX_SHOWN { "…" } else { "" };
        write!(f, "{}{rest}", shown.escape_ascii())
    }
}

const MAX_SHOWN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_a_byte_and_not_too_many() {
        assert_eq!(Key::new(""), Err(Error::KeyEmpty));
        assert_eq!(Key::new(vec![0; 4097]), Err(Error::KeyTooLong(4097)));
        assert!(Key::new(vec![0; 4096]).is_ok());
        assert_eq!(Key::new("a").unwrap().as_ref(), b"a");
    }

    #[test]
    fn a_key_in_a_log_cannot_break_its_line() {
        assert_eq!(Key::new("a\n\u{7f}").unwrap().to_string(), "a\\n\\x7f");
        assert_eq!(Key::new(vec![b'k'; 65]).unwrap().to_string(), "k".repeat(64) + "…");
    }
}
