//! A key: the name of a value.

use std::fmt;

use crate::InvalidKey;

/// A valid key: 1 to [`Key::MAX_BYTES`] arbitrary bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key<'k>(&'k [u8]);

impl<'k> Key<'k> {
    /// The longest key, in bytes.
    pub const MAX_BYTES: usize = 4096;

    /// Checks the length. The only constructor, so that a `Key` is always valid.
    pub fn new(bytes: &'k [u8]) -> Result<Key<'k>, InvalidKey> {
        match bytes.len() {
            0 => Err(InvalidKey::Empty),
            length if length > Key::MAX_BYTES => Err(InvalidKey::TooLong { length }),
            _ => Ok(Key(bytes)),
        }
    }

    /// The bytes of the key.
    pub fn as_bytes(self) -> &'k [u8] {
        self.0
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A key as the index stores it. Short keys, the most common, are stored inline, without an
/// allocation.
#[derive(Debug)]
pub(crate) enum StoredKey {
    Inline { length: u8, bytes: [u8; StoredKey::INLINE_BYTES] },
    Heap(Box<[u8]>),
}

impl StoredKey {
    /// What fits beside the tag and the length in 24 bytes.
    const INLINE_BYTES: usize = 22;

    pub(crate) fn new(key: Key<'_>) -> StoredKey {
        let from = key.as_bytes();
        if from.len() > StoredKey::INLINE_BYTES {
            return StoredKey::Heap(from.into());
        }
        let mut bytes = [0; StoredKey::INLINE_BYTES];
        bytes[..from.len()].copy_from_slice(from);
        StoredKey::Inline { length: from.len() as u8, bytes }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            StoredKey::Inline { length, bytes } => &bytes[..usize::from(*length)],
            StoredKey::Heap(bytes) => bytes,
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap(&self) -> usize {
        match self {
            StoredKey::Inline { .. } => 0,
            StoredKey::Heap(bytes) => bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_to_4096_bytes() {
        assert_eq!(Key::new(b""), Err(InvalidKey::Empty));
        assert_eq!(Key::new(&[0; 4097]), Err(InvalidKey::TooLong { length: 4097 }));
        assert_eq!(Key::new(&[0xff; 4096]).unwrap().as_bytes().len(), 4096);
    }

    #[test]
    fn stored_keys_are_unchanged() {
        for length in [1, 21, 22, 23, 4096] {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let stored = StoredKey::new(Key::new(&bytes).unwrap());
            assert_eq!(stored.as_bytes(), bytes);
            assert_eq!(stored.heap(), if length > 22 { length } else { 0 });
        }
        assert_eq!(size_of::<StoredKey>(), 24);
    }
}
